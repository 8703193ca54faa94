import numpy as np
import pytest

from stablemiss.datasets import make_flats, make_gaussian
from stablemiss.seeding import check_rng, draw_seed, to_rng


def test_an_int_gives_the_same_numbers_and_a_generator_is_returned_unchanged():
    assert draw_seed(to_rng(3)) == draw_seed(to_rng(3))
    rng = np.random.default_rng(3)
    assert to_rng(rng) is rng
    assert draw_seed(rng) != draw_seed(rng)


def test_equal_random_states_give_equal_generators():
    assert draw_seed(to_rng(np.random.RandomState(1))) == draw_seed(to_rng(np.random.RandomState(1)))


def test_none_gives_a_different_generator_each_time():
    assert draw_seed(to_rng(None)) != draw_seed(to_rng(None))


@pytest.mark.parametrize("random_state", ["a", -1, 1.5, True, [], {}, b"x"])
def test_other_random_states_raise(random_state):
    with pytest.raises(ValueError, match=r"random_state must be None, an integer .*got"):
        to_rng(random_state)


@pytest.mark.parametrize("rng", [None, 0, np.random.RandomState(0)])
def test_only_generators_pass_as_rng(rng):
    check_rng(np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"rng must be a numpy Generator.*got"):
        check_rng(rng)


def test_functions_accept_rng_beside_random_state():
    expected = make_flats(20, random_state=3).y
    for rng in (3, np.random.default_rng(3)):
        np.testing.assert_array_equal(make_flats(20, rng=rng).y, expected)
    population = make_gaussian(n_features=3, rng=1)
    np.testing.assert_array_equal(population.coef, make_gaussian(n_features=3, random_state=1).coef)


def test_rng_and_random_state_together_are_refused():
    with pytest.raises(TypeError, match="not both"):
        make_flats(20, random_state=1, rng=2)
