"""MAR: the missingness depends on the drivers, which are always observed, and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss.missingness import LEVELS, MAR

N_ROWS, N_COLUMNS = 4000, 30


def _table(seed: int, n: int = N_ROWS) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    return rng.normal(size=(n, 20)) @ rng.normal(size=(20, N_COLUMNS)) + rng.normal(size=N_COLUMNS)


def _driven(mechanism: MAR) -> np.ndarray:
    return np.setdiff1d(np.arange(N_COLUMNS), mechanism.drivers)


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_the_columns_are_drivers_and_always_observed(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    mechanism = MAR(0.9).fit(X, rng)
    assert len(mechanism.drivers) == 3
    assert mechanism.draw(X, rng)[:, mechanism.drivers].all()


@pytest.mark.parametrize(("d", "n_drivers"), [(1, 1), (2, 1), (9, 1), (19, 1), (20, 2), (50, 5), (70, 7)])
def test_the_number_of_drivers_is_rounded_down_but_never_zero(d: int, n_drivers: int) -> None:
    assert len(MAR(0.5).fit(np.eye(3, d), np.random.default_rng(0)).drivers) == n_drivers


@pytest.mark.parametrize("seed", range(3))
def test_hidden_values_do_not_influence_the_mask(seed: int) -> None:
    """Replacing all values of the driven columns gives the same mask."""
    X, rng = _table(seed), np.random.default_rng(seed)
    mechanism = MAR(0.5).fit(X, rng)
    changed = X.copy()
    changed[:, _driven(mechanism)] = rng.standard_cauchy(size=(N_ROWS, len(_driven(mechanism))))
    masks = [mechanism.draw(table, np.random.default_rng(7)) for table in (X, changed)]
    np.testing.assert_array_equal(*masks)


@pytest.mark.parametrize("seed", range(3))
def test_mask_and_hidden_values_depend_on_each_other_only_through_the_drivers(seed: int) -> None:
    """Masks correlate with values, but not with their residuals after regression on the drivers."""
    X, rng = _table(seed), np.random.default_rng(seed)
    mechanism = MAR(0.5).fit(X, rng)
    driven = _driven(mechanism)
    hidden = (~mechanism.draw(X, rng))[:, driven].astype(float)
    values = X[:, driven] - X[:, driven].mean(axis=0)
    drivers = X[:, mechanism.drivers] - X[:, mechanism.drivers].mean(axis=0)
    residuals = values - drivers @ np.linalg.lstsq(drivers, values)[0]

    def correlations(columns: np.ndarray) -> np.ndarray:
        return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(hidden.T, columns.T, strict=True)])

    assert np.abs(correlations(values)).max() > 0.2
    assert np.abs(correlations(residuals)).max() < 5 / np.sqrt(N_ROWS)


@pytest.mark.parametrize("seed", range(3))
def test_each_driven_column_has_the_rate_at_every_level(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    mechanism = MAR(0.5, spread=0).fit(X, rng)
    for level in (*LEVELS, 0.03, 0.475):
        rates = (~mechanism.at(level).draw(X, rng))[:, _driven(mechanism)].mean(axis=0)
        assert np.abs(rates - level).max() < 5 * np.sqrt(level * (1 - level) / N_ROWS)


@pytest.mark.parametrize("seed", range(3))
def test_the_rate_also_holds_on_new_rows(seed: int) -> None:
    X, rng = _table(seed, 8000), np.random.default_rng(seed)
    mechanism = MAR(0.3, spread=0).fit(X[:4000], rng)
    rates = (~mechanism.draw(X[4000:], rng))[:, _driven(mechanism)].mean(axis=0)
    assert np.abs(rates - 0.3).max() < 0.05


def test_log_odds_have_a_standard_deviation_of_two_to_ten() -> None:
    X = _table(0)
    deviations = []
    for seed in range(5):
        model = MAR(0.5).fit(X, np.random.default_rng(seed)).model
        deviations.extend(model.scores(X).std(axis=0))
    assert 2 - 1e-9 <= min(deviations) < 2.1
    assert 9 < max(deviations) <= 10 + 1e-9
    assert np.median(deviations) == pytest.approx(1 / 0.3, abs=1)


def test_changing_the_level_keeps_the_parameters_and_refitting_redraws_them() -> None:
    X = _table(0)
    mechanism = MAR(0.1).fit(X, np.random.default_rng(0))
    assert mechanism.at(0.9).model is mechanism.model
    assert mechanism.at(0.9).level == 0.9
    refitted = mechanism.fit(X, np.random.default_rng(1))
    assert refitted.level == 0.1
    assert list(refitted.drivers) != list(mechanism.drivers)


def test_a_missing_driver_is_replaced_by_its_mean() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    mechanism = MAR(0.5).fit(X, rng)
    without, with_mean = X.copy(), X.copy()
    without[:, mechanism.drivers[0]] = np.nan
    with_mean[:, mechanism.drivers[0]] = X[:, mechanism.drivers[0]].mean()
    masks = [
        mechanism.draw(table, np.random.default_rng(1))[:, _driven(mechanism)]
        for table in (without, with_mean)
    ]
    np.testing.assert_array_equal(*masks)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_constant_drivers_have_no_influence(constant: float) -> None:
    """Rounding errors around a constant are not scaled up."""
    rng = np.random.default_rng(0)
    X = np.full((2000, 5), constant)
    mechanism = MAR(0.3, spread=0).fit(X, rng)
    assert (mechanism.model.coefficients == 0).all()
    rates = (~mechanism.draw(X, rng)).mean(axis=0)
    assert np.abs(np.delete(rates, mechanism.drivers) - 0.3).max() < 5 * np.sqrt(0.21 / 2000)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_table_does_not_matter(unit: float) -> None:
    X = _table(0)
    masks = [
        MAR(0.5).fit(table, np.random.default_rng(0)).draw(table, np.random.default_rng(1))
        for table in (X, unit * X)
    ]
    assert (masks[0] != masks[1]).mean() < 1e-4


def test_a_single_column_is_always_observed() -> None:
    X, rng = _table(0)[:, :1], np.random.default_rng(0)
    assert MAR(0.9).fit(X, rng).draw(X, rng).all()


def test_drawing_before_fitting_raises() -> None:
    with pytest.raises(NotFittedError, match=r"mechanism = MAR\(\.\.\.\)\.fit\(X, rng\)"):
        MAR(0.5).draw(_table(0), np.random.default_rng(0))
    with pytest.raises(NotFittedError, match="MAR must be fitted"):
        _ = MAR(0.5).drivers


def test_another_number_of_columns_and_no_rows_raise() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    with pytest.raises(ValueError, match="fitted on 30 columns, but X has 10"):
        MAR(0.5).fit(X, rng).draw(X[:, :10], rng)
    with pytest.raises(ValueError, match="no rows"):
        MAR(0.5).fit(X[:0], rng)
    with pytest.raises(ValueError, match="driver_share must be a number from 0 to 1; got 3"):
        MAR(0.5, driver_share=3)
