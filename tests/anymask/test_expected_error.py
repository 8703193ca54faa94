"""Expected errors: their level, how they grow with missing columns, and how certain they are."""

import numpy as np
import pytest

from stablemiss.anymask.expected_error import ErrorModel
from stablemiss.anymask.fit_data import FitData
from stablemiss.data import MaskedData
from stablemiss.methods.em_mixture import EMMixture
from stablemiss.missingness import MaskAugmentation
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

N_COPIES = 4


def draw(n, seed, noise):
    """y = x₀ + x₁ + x₂ + noise, with independent columns of variance one; (n, 3) values and (n,) target."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 3))
    return values, values.sum(axis=1) + noise(rng, n)


def normal(rng, n):
    return rng.normal(size=n)


def make(n_train, n_valid, noise=normal, seed=0):
    """Training and validation rows, and the mixture fitted to them."""
    values, y = draw(n_train + n_valid, seed, noise)
    task = Regression.of(y)
    data = MaskedData.of(values, np.ones(values.shape), task.encode(y))
    train, valid = data.rows(np.arange(n_train)), data.rows(np.arange(n_train, len(y)))
    mixture = EMMixture(n_components=1, refit_on_validation=False).fit(
        train, valid, task, to_rng(seed), NullProgress()
    )
    return FitData(train, valid, task, MaskAugmentation.of(train.groups)), mixture


def fit(data, mixture, to_outputs, seed=0):
    """The error model of an ensemble whose outputs are a function of the mixture's outputs and the rows."""
    calibration = data.augmentation.copies(data.held_out, N_COPIES, to_rng(seed))
    outputs = to_outputs(mixture.predict(calibration.values, calibration.mask), calibration)
    return ErrorModel.fit(mixture, outputs, calibration, data, to_rng(seed))


def expect(model, data, mixture, mask):
    """Expected error in units of the target, for rows with a mask."""
    values = np.zeros((1, 3))
    mask, weight = np.array([mask], dtype=bool), data.task.scale**2
    return model.expected_error(mixture, values, mask, np.arange(3), weight)


@pytest.mark.parametrize("seed", range(3))
def test_the_expected_error_of_the_mixture_itself_is_its_conditional_variance(seed):
    data, mixture = make(3000, 500, seed=seed)
    model = fit(data, mixture, lambda outputs, rows: outputs)
    for n_missing in range(4):
        expected = expect(model, data, mixture, [False] * n_missing + [True] * (3 - n_missing))
        assert expected.error[0, 0] == pytest.approx(1 + n_missing, rel=0.2)
        assert expected.error_if_complete[0, 0] == pytest.approx(1, rel=0.2)
        # Each of the missing columns would reduce the variance by one.
        np.testing.assert_allclose(expected.gain[0], [1] * n_missing + [0] * (3 - n_missing), rtol=0.3)


def test_a_more_accurate_ensemble_has_a_smaller_expected_error():
    """An ensemble whose errors are half as large as those of the mixture."""
    data, mixture = make(2000, 500)
    models = [
        fit(data, mixture, lambda outputs, rows, share=share: share * outputs + (1 - share) * rows.target)
        for share in (1, 0.5)
    ]
    whole, half = (expect(model, data, mixture, [True, False, True]).error[0, 0] for model in models)
    assert half == pytest.approx(whole / 4, rel=1e-6)


def test_an_ensemble_that_suffers_more_from_missing_columns_than_the_mixture():
    """Its squared errors grow by a factor of ten from complete rows to rows without any value."""

    def worse(outputs, rows):
        share_missing = 1 - rows.mask.mean(axis=1, keepdims=True)
        return rows.target + (outputs - rows.target) * np.sqrt(10**share_missing)

    data, mixture = make(2000, 1000)
    models = [fit(data, mixture, to_outputs) for to_outputs in (lambda outputs, rows: outputs, worse)]
    for mask, factor in (([True] * 3, 1), ([False] * 3, 10)):
        base, grown = (expect(model, data, mixture, mask).error[0, 0] for model in models)
        assert grown == pytest.approx(factor * base, rel=0.25)


def rare_outliers(rng, n):
    """Half of the variance of this noise is due to one row in two hundred."""
    return rng.normal(size=n) + np.where(rng.random(n) < 1 / 200, rng.normal(size=n) * np.sqrt(200), 0)


@pytest.mark.parametrize("seed", range(4))
def test_training_rows_show_how_common_outliers_are(seed):
    """Among a hundred validation rows there may be none or several outliers. The variance is two."""
    data, mixture = make(8000, 100, rare_outliers, seed=seed)
    model = fit(data, mixture, lambda outputs, rows: outputs)
    assert expect(model, data, mixture, [True] * 3).error[0, 0] == pytest.approx(2, rel=0.4)


def test_a_single_huge_error_does_not_determine_the_level():
    """One training row in two thousand has noise of a thousand standard deviations; the variance is one."""

    def noise(rng, n):
        return rng.normal(size=n) + np.where(np.arange(n) == 7, 1000.0, 0.0)

    data, mixture = make(2000, 300, noise)
    model = fit(data, mixture, lambda outputs, rows: outputs)
    # The mean square of the training rows is 500.
    assert expect(model, data, mixture, [True] * 3).error[0, 0] < 3


def test_the_interval_is_wider_for_fewer_rows_and_for_heavier_tails():
    factors = {}
    for n_train, n_valid, noise in ((8000, 1600, normal), (800, 160, normal), (800, 160, rare_outliers)):
        data, mixture = make(n_train, n_valid, noise, seed=1)
        model = fit(data, mixture, lambda outputs, rows: outputs)
        low, high = model.interval(np.ones((1, 1)))
        np.testing.assert_allclose(low * high, 1)
        factors[n_train, noise] = high[0, 0]
    assert 1 < factors[8000, normal] < factors[800, normal] < factors[800, rare_outliers]


def test_without_validation_rows_the_training_rows_calibrate():
    data, mixture = make(500, 0)
    model = fit(data, mixture, lambda outputs, rows: outputs)
    assert expect(model, data, mixture, [True] * 3).error[0, 0] == pytest.approx(1, rel=0.2)


def test_a_restored_model_is_the_same():
    data, mixture = make(300, 60)
    model = fit(data, mixture, lambda outputs, rows: outputs)
    restored = ErrorModel.from_state(model.state(), len(model.slope))
    first, second = (expect(m, data, mixture, [True, False, False]) for m in (model, restored))
    np.testing.assert_array_equal(first.error, second.error)
    np.testing.assert_array_equal(first.gain, second.gain)
    assert model.interval(first.error) == restored.interval(second.error)
