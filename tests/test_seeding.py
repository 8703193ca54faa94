import numpy as np

from stablemiss.seeding import draw_seed, to_rng


def test_an_int_repeats_and_a_generator_moves_on():
    assert draw_seed(to_rng(3)) == draw_seed(to_rng(3))
    rng = np.random.default_rng(3)
    assert to_rng(rng) is rng
    assert draw_seed(rng) != draw_seed(rng)


def test_a_random_state_seeds_a_repeatable_generator():
    assert draw_seed(to_rng(np.random.RandomState(1))) == draw_seed(to_rng(np.random.RandomState(1)))


def test_none_differs_each_time():
    assert draw_seed(to_rng(None)) != draw_seed(to_rng(None))
