import numpy as np

from stablemiss.seeding import draw_seed, to_rng


def test_an_int_gives_the_same_numbers_and_a_generator_is_returned_unchanged():
    assert draw_seed(to_rng(3)) == draw_seed(to_rng(3))
    rng = np.random.default_rng(3)
    assert to_rng(rng) is rng
    assert draw_seed(rng) != draw_seed(rng)


def test_equal_random_states_give_equal_generators():
    assert draw_seed(to_rng(np.random.RandomState(1))) == draw_seed(to_rng(np.random.RandomState(1)))


def test_none_gives_a_different_generator_each_time():
    assert draw_seed(to_rng(None)) != draw_seed(to_rng(None))
