"""The contract of every missingness mechanism."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from stablemiss.missingness import (
    LEVELS,
    MAR,
    MECHANISMS,
    MNAR,
    MCARIndependent,
    MCARWindow,
    Mechanism,
    Only,
    Outage,
    Resampled,
)

N_ROWS, N_COLUMNS = 3000, 20
SEEDS = range(3)


def _masks() -> np.ndarray:
    """Masks whose rows range from nearly empty to nearly full."""
    rng = np.random.default_rng(99)
    return rng.random((500, N_COLUMNS)) < rng.random((500, 1))


# Each mechanism as a function of its level, and the nominal share of values hidden at that level.
CASES: dict[str, tuple[Callable[[float], Mechanism], Callable[[float], float]]] = {
    "mcar_independent": (MCARIndependent, lambda level: 0.1125 + 0.775 * level),
    "mcar_window": (MCARWindow, lambda level: 0.1125 + 0.775 * level),
    "mar": (MAR, lambda level: 0.9 * (0.1125 + 0.775 * level)),
    "mnar": (MNAR, lambda level: 0.1125 + 0.775 * level),
    "mcar_independent_even": (lambda level: MCARIndependent(level, spread=0), lambda level: level),
    "mcar_window_even": (lambda level: MCARWindow(level, spread=0), lambda level: level),
    "mar_even": (lambda level: MAR(level, spread=0), lambda level: 0.9 * level),
    "mnar_even": (lambda level: MNAR(level, spread=0), lambda level: level),
    "outage": (lambda level: Outage([0, 7], level), lambda level: 0.1 * level),
    "only": (
        lambda level: Only(MCARIndependent(level, spread=0), range(3, 13)),
        lambda level: 0.5 * level,
    ),
    "only_mar": (
        lambda level: Only(MAR(level, spread=0), range(10)),
        lambda level: 0.5 * 0.9 * level,
    ),
    "resampled": (lambda level: Resampled(_masks(), level), lambda level: level),
}


@pytest.fixture(params=CASES)
def make_mechanism(request: pytest.FixtureRequest) -> Callable[[float], Mechanism]:
    return CASES[request.param][0]


def _table(seed: int) -> np.ndarray:
    """Correlated, skewed columns on different scales."""
    rng = np.random.default_rng([seed, 1])
    mixed = rng.normal(size=(N_ROWS, 10)) @ rng.normal(size=(10, N_COLUMNS))
    mixed[:, ::4] = np.exp(mixed[:, ::4] / 3)
    return mixed * np.logspace(-2, 2, N_COLUMNS)


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 2])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_the_empirical_rate_is_the_nominal_rate(name: str, seed: int) -> None:
    """At every level the share of hidden values lies within sampling error of the nominal rate."""
    make_mechanism, nominal_rate = CASES[name]
    X, rng = _table(seed), _rng(seed)
    mechanism = make_mechanism(0.5).fit(X, rng)
    for level in LEVELS:
        hidden_share = 1 - mechanism.at(level).draw(X, rng).mean(axis=1)
        # Mask values of a row depend on each other, so the sampling error is computed over rows.
        error = hidden_share.std() / np.sqrt(N_ROWS)
        assert abs(hidden_share.mean() - nominal_rate(level)) < 5 * error + 1e-3


def test_the_same_seed_gives_the_same_mask_and_another_seed_another(make_mechanism: Callable) -> None:
    X = _table(0)

    def draw(seed: int) -> np.ndarray:
        rng = _rng(seed)
        return make_mechanism(0.5).fit(X, rng).draw(X, rng)

    np.testing.assert_array_equal(draw(0), draw(0))
    assert (draw(0) != draw(1)).any()


def test_global_random_states_are_unchanged(make_mechanism: Callable) -> None:
    X, rng = _table(0), _rng(0)
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    make_mechanism(0.5).fit(X, rng).hide(X, rng)
    np.testing.assert_equal(np.random.get_state(), numpy_state)  # noqa: NPY002
    assert random.getstate() == python_state


def test_hide_puts_nan_exactly_where_the_mask_of_draw_is_false(make_mechanism: Callable) -> None:
    """Other values are unchanged, X itself is not modified, and values that were NaN stay NaN."""
    X = _table(0)
    X[_rng(5).random(X.shape) < 0.1] = np.nan
    before = X.copy()
    mechanism = make_mechanism(0.5).fit(X, _rng(0))
    mask, hidden = mechanism.draw(X, _rng(1)), mechanism.hide(X, _rng(1))
    assert mask.dtype == bool
    assert mask.shape == X.shape
    np.testing.assert_array_equal(np.isnan(hidden), ~mask)
    np.testing.assert_array_equal(hidden[mask], X[mask])
    assert not mask[np.isnan(X)].any()
    np.testing.assert_array_equal(X, before)


def test_a_mechanism_is_immutable(make_mechanism: Callable) -> None:
    """`fit` and `at` return new mechanisms; the original draws the same masks as before."""
    X = _table(0)
    mechanism = make_mechanism(0.5).fit(X, _rng(0))
    before = mechanism.draw(X, _rng(1))
    mechanism.fit(X[:100], _rng(7))
    mechanism.at(0.9).draw(X, _rng(2))
    np.testing.assert_array_equal(mechanism.draw(X, _rng(1)), before)


def test_changing_the_level_and_back_gives_the_same_mechanism(make_mechanism: Callable) -> None:
    X = _table(0)
    mechanism = make_mechanism(0.3).fit(X, _rng(0))
    np.testing.assert_array_equal(mechanism.at(0.7).at(0.3).draw(X, _rng(1)), mechanism.draw(X, _rng(1)))


@pytest.mark.parametrize("level", [0.0, 1.0])
@pytest.mark.parametrize("name", MECHANISMS)
def test_level_zero_hides_nothing_and_level_one_hides_all_values_that_may_be_hidden(
    name: str, level: float
) -> None:
    X, rng = _table(0), _rng(0)
    mechanism = MECHANISMS[name](0.5).fit(X, rng).at(level)
    can_be_hidden = np.ones(N_COLUMNS, dtype=bool)
    if isinstance(mechanism, MAR):
        can_be_hidden[mechanism.drivers] = False
    mask = mechanism.draw(X, rng)
    assert (mask[:, can_be_hidden] == (level == 0)).all()
    assert mask[:, ~can_be_hidden].all()


def test_the_order_of_the_reference_rows_is_irrelevant(make_mechanism: Callable) -> None:
    X = _table(0)
    shuffled = X[_rng(3).permutation(N_ROWS)]
    masks = [make_mechanism(0.5).fit(rows, _rng(0)).draw(X, _rng(1)) for rows in (X, shuffled)]
    # Rounding depends on the order of summation, which may change one mask value in ten thousand.
    assert (masks[0] != masks[1]).mean() < 1e-4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["mcar_independent", "mcar_window", "outage", "resampled"])
def test_masks_of_value_blind_mechanisms_ignore_values_and_the_order_of_rows(name: str, seed: int) -> None:
    """The share of hidden values does not depend on the position of the row in a sorted table."""
    rng = _rng(seed)
    X = np.sort(_table(seed), axis=0)
    mask = CASES[name][0](0.5).fit(X, rng).draw(X, rng)
    hidden_share = 1 - mask.mean(axis=1)
    assert abs(np.corrcoef(hidden_share, np.arange(N_ROWS))[0, 1]) < 5 / np.sqrt(N_ROWS)
    assert abs(np.corrcoef(hidden_share[1:], hidden_share[:-1])[0, 1]) < 5 / np.sqrt(N_ROWS)
    mechanism = CASES[name][0](0.5)
    np.testing.assert_array_equal(mechanism.draw(X, _rng(seed)), mechanism.draw(-X, _rng(seed)))


def test_a_table_without_rows_has_an_empty_mask(make_mechanism: Callable) -> None:
    mechanism = make_mechanism(0.5).fit(_table(0), _rng(0))
    assert mechanism.draw(np.empty((0, N_COLUMNS)), _rng(1)).shape == (0, N_COLUMNS)


def test_missing_and_constant_columns_and_few_rows_are_accepted(make_mechanism: Callable) -> None:
    X = _table(0)[:2]
    X[:, ::2] = 0.1
    X[:, 1::4] = np.nan
    mechanism = make_mechanism(0.5).fit(X, _rng(0))
    assert mechanism.draw(X, _rng(1)).shape == X.shape


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "X must be .* shape"),
        (np.zeros((3, 0)), "X must be .* shape"),
        ([["a", "b"]], "X must be .*numbers"),
        ([["1", "2"]], "X must be .*numbers"),
        (np.array([["1", 1.0]], dtype=object), "X must be .*numbers"),
        (np.array([["2024-01-01"]], dtype="M8[D]"), "X must be .*numbers"),
        ([[1.0, 2.0], [3.0]], "rows .*length"),
        ([[np.inf, 1.0]], "infinite"),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_tables_that_are_not_numeric_raise(name: str, X: object, message: str) -> None:
    mechanism = CASES[name][0](0.5)
    with pytest.raises(ValueError, match=message):
        mechanism.draw(X, _rng(0))
    # Resampled only reads which values are missing, so it accepts any entries.
    if not isinstance(mechanism, Resampled):
        with pytest.raises(ValueError, match=message):
            mechanism.fit(X, _rng(0))


@pytest.mark.parametrize("level", [-0.1, 1.5, 50, np.nan, "0.5"])
def test_levels_outside_zero_to_one_raise(make_mechanism: Callable, level: object) -> None:
    with pytest.raises(ValueError, match=r"level.* 0 .*1"):
        make_mechanism(level)
    with pytest.raises(ValueError, match=r"level.* 0 .*1"):
        make_mechanism(0.5).at(level)
