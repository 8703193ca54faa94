"""Intervals and sets have their nominal coverage under any mask, and widen with the missing information."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stablemiss.anymask.calibration import MIN_ROWS, ConformalCalibrator
from stablemiss.data import MaskedData
from stablemiss.estimators.archive import read_tree, write_tree
from stablemiss.missingness import MaskAugmentation
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

N_COPIES = 9
SLOPES = np.array([3.0, 1.0, 1.0, 0.5, 0.5, 0.0])
MEANS = np.array([[0, 0, 0, 0], [1.5, 0, 1, 0], [0, 1.5, 0, 1], [-1.5, 0, 0, 1]])


def numbers(n, rng):
    """Rows of independent columns; the sum of the observed ones is the best prediction under any mask."""
    values = rng.normal(size=(n, len(SLOPES)))
    # Noise grows with a column, and with the target.
    noise = 0.3 * rng.normal(size=n) * (1 + 2 * np.abs(values[:, 4])) * np.exp(values @ SLOPES / 8)
    return values, (values @ SLOPES + noise)[:, None]


def sums(values, mask):
    return (values * mask) @ SLOPES[:, None]


def classes(n, rng):
    """Rows of four Gaussian classes with independent columns."""
    target = rng.integers(len(MEANS), size=n)
    return rng.normal(size=(n, MEANS.shape[1])) + MEANS[target], target


def log_odds(values, mask):
    """Log densities of the observed columns: the optimal predictor under any mask."""
    return -0.5 * (mask[:, None] * (values[:, None] - MEANS) ** 2).sum(axis=2)


def calibrate(values, target, outputs, rng, n_copies=N_COPIES, weight=None):
    data = MaskedData.of(values, np.ones(values.shape, dtype=bool), target, weight)
    calibration = MaskAugmentation.of(data.groups).copies(data, n_copies - 1, rng)
    task = Regression.of(target) if target.ndim == 2 else Classification.of(target)
    return ConformalCalibrator.of(
        outputs(calibration.values, calibration.mask), calibration, task, n_copies, rng
    )


def masks(n, d, rng):
    """Masks unlike those of the calibration rows."""
    outage = np.ones((n, d), dtype=bool)
    outage[:, 0] = False
    return {
        "clean": np.ones((n, d), dtype=bool),
        "light": rng.random((n, d)) < 0.8,
        "heavy": rng.random((n, d)) < 0.3,
        "outage": outage,
        "all but one": ~outage,
    }


def covered(interval, target):
    return (interval[:, 0, 0] <= target[:, 0]) & (target[:, 0] <= interval[:, 0, 1])


@pytest.fixture(scope="module")
def fitted():
    rng = to_rng(0)
    return calibrate(*numbers(300, rng), sums, rng)


def test_intervals_have_their_coverage_under_every_mechanism_and_number_of_missing_columns():
    coverages: dict[tuple, list[float]] = {}
    for seed in range(4):
        rng = to_rng(seed)
        calibrator = calibrate(*numbers(1500, rng), sums, rng)
        values, target = numbers(4000, rng)
        for mechanism, mask in masks(*values.shape, rng).items():
            for coverage in (0.5, 0.9):
                ok = covered(calibrator.interval(values * mask, mask, sums(values, mask), coverage), target)
                n_missing = (~mask).sum(axis=1)
                for number in np.unique(n_missing):
                    rows = n_missing == number
                    if rows.sum() >= 200:
                        coverages.setdefault((mechanism, number, coverage), []).append(ok[rows].mean())
    for (_, _, coverage), shares in coverages.items():
        assert np.mean(shares) == pytest.approx(coverage, abs=0.03 if coverage == 0.9 else 0.06)


@pytest.mark.parametrize("seed", range(3))
def test_sets_have_their_coverage_under_every_mechanism_and_number_of_missing_columns(seed):
    rng = to_rng(seed)
    calibrator = calibrate(*classes(2000, rng), log_odds, rng)
    values, target = classes(6000, rng)
    for mask in masks(*values.shape, rng).values():
        probability = Classification(np.arange(4)).probabilities(log_odds(values, mask))
        sets = calibrator.sets(probability, 0.9)
        ok = sets[np.arange(len(target)), target]
        assert sets[np.arange(len(target)), probability.argmax(axis=1)].all()
        n_missing = (~mask).sum(axis=1)
        for number in np.unique(n_missing):
            rows = n_missing == number
            if rows.sum() >= 200:
                slack = 0.035 + 2.5 * np.sqrt(0.09 / rows.sum())
                assert ok[rows].mean() > 0.9 - slack
                # If nothing is observed, all rows have the same set.
                assert ok[rows].mean() < 0.9 + slack or number == mask.shape[1]


def test_with_few_rows_coverage_is_that_of_the_order_statistic():
    """Of 19 exchangeable errors the 18th lies above a new one with probability 0.9 exactly."""
    hits = []
    for seed in range(3000):
        rng = to_rng(seed)
        target = rng.standard_t(3, size=(19, 1))
        calibration = MaskedData.of(np.zeros((19, 1)), np.ones((19, 1)), target)
        calibrator = ConformalCalibrator.of(np.zeros((19, 1)), calibration, Regression.of(target), 1, rng)
        new = calibrator.interval(np.zeros((1, 1)), np.ones((1, 1), dtype=bool), np.zeros((1, 1)), 0.9)
        hits.append(abs(rng.standard_t(3)) <= new[0, 0, 1])
    assert np.mean(hits) == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 3000))


@pytest.mark.parametrize("seed", range(3))
def test_intervals_widen_with_the_information_lost_not_with_the_number_of_missing_columns(seed):
    rng = to_rng(seed)
    calibrator = calibrate(*numbers(1500, rng), sums, rng)
    values, _ = numbers(500, rng)
    widths = []
    for missing in ([], [5], [0]):
        mask = np.ones(values.shape, dtype=bool)
        mask[:, missing] = False
        widths.append(
            np.ptp(calibrator.interval(values * mask, mask, sums(values, mask), 0.9), axis=2).mean()
        )
    complete, uninformative, informative = widths
    assert uninformative < 1.25 * complete
    assert informative > 1.8 * uninformative


def skewed(n, rng):
    """One column; errors above the prediction are larger than those below it."""
    values = rng.normal(size=(n, 1))
    return values, values + rng.exponential(size=(n, 1))


def test_quantiles_are_one_sided_and_follow_skewed_errors():
    quantiles = (0.05, 0.3, 0.5, 0.8, 0.95)
    shares = []
    for seed in range(5):
        rng = to_rng(seed)
        calibrator = calibrate(*skewed(1000, rng), lambda values, mask: values * mask + 1.0, rng)
        values, target = skewed(4000, rng)
        mask = np.ones(values.shape, dtype=bool)
        bounds = [calibrator.quantile(values, mask, values + 1.0, quantile) for quantile in quantiles]
        assert all((low <= high).all() for low, high in pairwise(bounds))
        shares.append([(target <= bound).mean() for bound in bounds])
    np.testing.assert_allclose(np.mean(shares, axis=0), quantiles, atol=0.025)


def test_errors_that_the_mixture_expects_need_no_trees():
    """The size of the errors is known for each row: intervals are those of the known distribution."""
    ratios = []
    for seed in range(4):
        rng = to_rng(seed)
        values = rng.normal(size=(600, 3))
        size = np.exp(values[:, :1])
        data = MaskedData.of(values, np.ones(values.shape, dtype=bool), size * rng.normal(size=(600, 1)))
        task, outputs = Regression.of(data.target), np.zeros((600, 1))
        new, mask = rng.normal(size=(500, 3)), np.ones((500, 3), dtype=bool)
        widths = []
        for expected, expected_new in ((size, np.exp(new[:, :1])), (None, None)):
            calibrator = ConformalCalibrator.of(outputs, data, task, 1, rng, expected)
            bounds = calibrator.interval(new, mask, np.zeros((500, 1)), 0.9, expected_new)
            widths.append(np.ptp(bounds, axis=2)[:, 0] / (2 * 1.645 * np.exp(new[:, 0])))
        ratios.append([np.mean(np.abs(np.log(width))) for width in widths])
    known, unknown = np.mean(ratios, axis=0)
    assert known < 0.12 < 0.2 < unknown


def test_higher_coverage_gives_wider_intervals_and_larger_sets(fitted):
    rng = to_rng(1)
    values, _ = numbers(200, rng)
    mask = rng.random(values.shape) < 0.6
    bounds = [fitted.interval(values * mask, mask, sums(values, mask), c) for c in (0.05, 0.5, 0.9, 0.999)]
    assert all((np.ptp(b, axis=2) >= np.ptp(a, axis=2)).all() for a, b in pairwise(bounds))
    calibrator = calibrate(*classes(300, rng), log_odds, rng)
    probability = rng.dirichlet(np.ones(4), size=200)
    sets = [calibrator.sets(probability, c) for c in (0.05, 0.5, 0.9, 0.999)]
    assert all((a <= b).all() for a, b in pairwise(sets))


def test_an_interval_depends_neither_on_other_rows_nor_on_hidden_values(fitted):
    rng = to_rng(2)
    values, _ = numbers(60, rng)
    mask = rng.random(values.shape) < 0.6
    outputs = sums(values, mask)
    together = fitted.interval(values * mask, mask, outputs, 0.9)
    alone = [fitted.interval(values[[i]], mask[[i]], outputs[[i]], 0.9) for i in range(len(values))]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize(("kind", "outputs"), [(numbers, sums), (classes, log_odds)])
def test_the_same_seed_and_a_stored_state_give_bit_identical_results(kind, outputs, tmp_path: Path) -> None:
    first, second = (calibrate(*kind(200, to_rng(3)), outputs, to_rng(4)) for _ in range(2))
    write_tree(tmp_path / "calibrator", first.state())
    values, target = kind(100, to_rng(5))
    task = Regression.of(target) if kind is numbers else Classification(np.arange(4))
    stored = ConformalCalibrator.from_state(read_tree(tmp_path / "calibrator"), values.shape[1], task)
    mask = to_rng(6).random(values.shape) < 0.6
    for other in (second, stored):
        for coverage in (0.3, 0.9):
            if kind is numbers:
                arguments = (values, mask, outputs(values, mask), coverage)
                np.testing.assert_array_equal(first.interval(*arguments), other.interval(*arguments))
            else:
                probability = task.probabilities(outputs(values, mask))
                np.testing.assert_array_equal(
                    first.sets(probability, coverage), other.sets(probability, coverage)
                )


@pytest.mark.parametrize("n", [1, 2, 7, MIN_ROWS - 1, MIN_ROWS, MIN_ROWS + 1, 100])
@pytest.mark.parametrize("n_copies", [1, N_COPIES])
def test_for_any_number_of_rows_intervals_are_finite_and_sets_are_not_empty(n, n_copies):
    rng = to_rng(n)
    calibrator = calibrate(*numbers(n, rng), sums, rng, n_copies)
    values, _ = numbers(50, rng)
    mask = rng.random(values.shape) < 0.5
    for coverage in (0.01, 0.9, 0.9999):
        assert np.isfinite(calibrator.interval(values, mask, sums(values, mask), coverage)).all()
    calibrator = calibrate(*classes(max(n, 2), rng), log_odds, rng, n_copies)
    probability = rng.dirichlet(np.ones(4), size=50)
    assert calibrator.sets(probability, 0.01).any(axis=1).all()
    assert calibrator.sets(probability, 0.9999).all()


def test_intervals_are_extrapolated_if_there_are_too_few_rows():
    """One error is exceeded by the next with probability 1/2; a fifth of that takes five times the width."""
    calibration = MaskedData.of(np.zeros((1, 1)), np.ones((1, 1)), np.array([[2.0]]))
    calibrator = ConformalCalibrator.of(
        np.zeros((1, 1)), calibration, Regression.of(np.array([2.0])), 1, to_rng(0)
    )
    rows = np.zeros((1, 1)), np.ones((1, 1), dtype=bool), np.zeros((1, 1))
    assert calibrator.interval(*rows, 0.5).ravel().tolist() == [-2.0, 2.0]
    assert calibrator.interval(*rows, 0.9).ravel() == pytest.approx([-10.0, 10.0])


@pytest.mark.parametrize("n", [5, 200])
def test_an_exact_prediction_has_an_interval_of_width_zero(n):
    rng = to_rng(0)
    values, _ = numbers(n, rng)
    calibrator = calibrate(values, np.ones((n, 1)), lambda values, mask: np.ones((len(values), 1)), rng)
    interval = calibrator.interval(values, np.ones(values.shape, dtype=bool), np.ones((n, 1)), 0.9)
    np.testing.assert_array_equal(interval, 1.0)


def test_each_output_has_a_separate_width():
    rng = to_rng(0)

    def two(n):
        values, target = numbers(n, rng)
        return values, np.hstack([target, 10 * rng.normal(size=(n, 1))])

    def both(values, mask):
        return np.hstack([sums(values, mask), np.zeros((len(values), 1))])

    calibrator = calibrate(*two(1000), both, rng)
    values, target = two(1000)
    mask = np.ones(values.shape, dtype=bool)
    interval = calibrator.interval(values, mask, both(values, mask), 0.9)
    assert interval.shape == (1000, 2, 2)
    inside = (interval[..., 0] <= target) & (target <= interval[..., 1])
    assert inside.mean(axis=0) == pytest.approx([0.9, 0.9], abs=0.04)
    assert np.ptp(interval[:, 1], axis=1).mean() == pytest.approx(2 * 16.4, rel=0.1)


def test_rows_count_by_their_weight_and_rows_of_weight_zero_are_ignored():
    rng = to_rng(0)
    values, target = numbers(400, rng)
    target[200:] += 100
    mask = np.ones(values.shape, dtype=bool)

    def width(weight):
        calibrator = calibrate(
            values, target, sums, to_rng(0), weight=np.r_[np.ones(200), np.full(200, weight)]
        )
        return np.ptp(
            calibrator.interval(values[:50], mask[:50], sums(values, mask)[:50], 0.9), axis=2
        ).mean()

    assert width(0.0) == pytest.approx(width(1e-9), rel=0.5)
    assert width(1e-3) < 30 < 150 < width(1.0)


def test_encoded_columns_of_one_group_count_as_one_missing_column():
    rng = to_rng(0)
    groups = np.array([0, 1, 1, 1, 1])
    target = rng.normal(size=(500, 1))
    data = MaskedData.of(np.ones((500, 5)), np.ones((500, 5)), target, groups=groups)
    calibration = MaskAugmentation.of(groups).copies(data, 3, rng)
    calibrator = ConformalCalibrator.of(np.zeros((2000, 1)), calibration, Regression.of(target), 4, rng)
    assert calibrator.stratum.max() == 2
    assert len(calibrator.bandwidth) == 3


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.1, float("nan")])
def test_coverage_must_be_between_0_and_1(fitted, coverage):
    with pytest.raises(ValueError, match="between 0 and 1"):
        fitted.interval(np.zeros((1, 6)), np.ones((1, 6), dtype=bool), np.zeros((1, 1)), coverage)


def test_with_few_rows_a_complete_row_does_not_get_the_margin_of_an_empty_one():
    """Eight rows are too few for 95%, but errors of empty rows are not relevant for complete ones."""
    rng = to_rng(0)
    values, target = numbers(8, rng)
    data = MaskedData.of(values, np.ones_like(values), target)
    calibration = MaskAugmentation.of(range(len(SLOPES))).copies(data, N_COPIES - 1, rng)
    task = Regression.of(target)
    calibrator = ConformalCalibrator.of(
        sums(calibration.values, calibration.mask), calibration, task, N_COPIES, rng
    )
    mask = np.array([[True] * len(SLOPES), [False] * len(SLOPES)])
    bounds = calibrator.interval(np.zeros(mask.shape), mask, np.zeros((2, 1)), 0.95)[:, 0]
    complete, empty = bounds[:, 1] - bounds[:, 0]
    assert complete < 0.5 * empty
