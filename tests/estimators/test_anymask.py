"""The AnyMask estimators: intervals, sets, explanations of missing values, and tables of many kinds.

The truth is known: y = 2a + b + noise of variance ¼, with independent columns a, b, c of variance one. In
training only c has missing values, so all masks with a or b missing are new to the model.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor, load_model
from stablemiss.estimators import SuspiciousDataWarning, UnknownCategoryWarning, UnseenMissingWarning
from stablemiss.methods import AnyMask

NOISE = 0.5
# Hidden columns → conditional variance of y.
MASKS = {(): NOISE**2, ("a",): NOISE**2 + 4, ("b",): NOISE**2 + 1, ("a", "b"): NOISE**2 + 5}


def draw(n=150, seed=0):
    X = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] + X["b"]


def draw_noisy(n, seed):
    X, _ = draw(n, seed)
    return X, 2 * X["a"] + X["b"] + NOISE * np.random.default_rng([seed, 1]).normal(size=n)


def draw_classes(n, seed):
    """Three classes that shift a by much and b by little; c is uninformative."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    X, _ = draw(n, seed + 1)
    return X.assign(a=X["a"] + 2.5 * codes, b=X["b"] + 0.7 * codes), np.array(["x", "y", "z"])[codes]


def hidden(X, columns):
    return X.assign(**dict.fromkeys(columns, np.nan))


def fast(estimator=AnyMaskRegressor, **settings):
    return estimator(budget="fast", random_state=0, **settings)


@pytest.fixture(scope="module")
def regressor():
    X, y = draw_noisy(2500, seed=0)
    return fast().fit(X.assign(c=X["c"].where(X.index % 5 > 0)), y)


@pytest.fixture(scope="module")
def classifier():
    X, y = draw_classes(1500, seed=0)
    return fast(AnyMaskClassifier).fit(X.assign(c=X["c"].where(X.index % 5 > 0)), y)


@pytest.fixture(scope="module")
def two_outputs():
    X, y = draw_noisy(400, seed=0)
    return fast().fit(X.to_numpy(), np.column_stack([y, 1000 * X["c"]]))


def width(bounds):
    return bounds[..., 1] - bounds[..., 0]


def test_columns_can_be_given_by_name_or_position():
    X, y = draw()
    members = ["boosting"]
    by_name = fast(members=members, never_missing=["c", "a"]).fit(X, y)
    by_position = fast(members=members, may_vanish=[1]).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(X), by_position.predict(X))
    general = MissingRegressor(AnyMask("fast", members, may_vanish=[1]), random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(X), general.predict(X))


def test_columns_that_the_table_does_not_have_raise():
    X, y = draw(50)
    with pytest.raises(
        ValueError, match="never_missing names 'd', but the table has the columns 'a', 'b', 'c'"
    ):
        AnyMaskRegressor(never_missing=["d"]).fit(X, y)
    with pytest.raises(ValueError, match="no column names; pass positions"):
        AnyMaskRegressor(may_vanish=["a"]).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="must be a list of names or positions"):
        AnyMaskRegressor(may_vanish="a").fit(X, y)


def test_a_column_that_was_never_missing_may_be_missing_without_a_warning(classifier):
    X, _ = draw_classes(150, seed=1)
    assert classifier.predict_proba(hidden(X, "a")).shape == (150, 3)


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (AnyMaskRegressor, "predict_interval"),
        (AnyMaskRegressor, "predict_quantile"),
        (AnyMaskRegressor, "explain_missing"),
        (AnyMaskClassifier, "predict_set"),
        (AnyMaskClassifier, "explain_missing"),
    ],
)
def test_calls_before_fit_raise(estimator, method):
    with pytest.raises(NotFittedError, match="fit"):
        getattr(estimator(), method)([[1.0]])


@pytest.mark.parametrize("columns", MASKS, ids=str)
def test_intervals_have_their_coverage_and_nearly_minimal_width_under_new_masks(regressor, columns):
    X, y = draw_noisy(4000, seed=1)
    bounds = regressor.predict_interval(hidden(X, columns), coverage=0.9)
    assert bounds.shape == (4000, 2)
    covered = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert 0.84 < covered < 0.96
    # The narrowest interval that covers 90% of normal errors is 3.29 standard deviations wide.
    assert 0.8 < width(bounds).mean() / (3.29 * np.sqrt(MASKS[columns])) < 1.3


def test_intervals_contain_the_prediction_and_intervals_of_smaller_coverage(regressor):
    X, _ = draw_noisy(200, seed=2)
    X = hidden(X, "b")
    small, large = (regressor.predict_interval(X, coverage) for coverage in (0.5, 0.95))
    assert (large[:, 0] < small[:, 0]).all()
    assert (small[:, 1] < large[:, 1]).all()
    assert ((small[:, 0] <= regressor.predict(X)) & (regressor.predict(X) <= small[:, 1])).all()


@pytest.fixture(scope="module")
def regressors():
    return [fast().fit(*draw_noisy(2500, seed)) for seed in (10, 20, 30, 40)]


@pytest.mark.slow
@pytest.mark.parametrize("columns", MASKS, ids=str)
def test_quantiles_are_exceeded_as_rarely_as_they_say(regressors, columns):
    """On average over training rows: of one model they depend on its few hundred calibration rows."""
    X, y = draw_noisy(4000, seed=1)
    X = hidden(X, columns)
    shares = []
    for regressor in regressors:
        bounds = [regressor.predict_quantile(X, quantile) for quantile in (0.1, 0.5, 0.95)]
        assert all(bound.shape == (4000,) for bound in bounds)
        shares.append([np.mean(y <= bound) for bound in bounds])
    assert np.mean(shares, axis=0) == pytest.approx([0.1, 0.5, 0.95], abs=0.04)
    assert (bounds[0] < bounds[1]).all()
    assert (bounds[1] < bounds[2]).all()


def test_quantiles_of_several_outputs(two_outputs):
    X, _ = draw(50, seed=3)
    low, high = (two_outputs.predict_quantile(X.to_numpy(), quantile) for quantile in (0.1, 0.9))
    assert low.shape == high.shape == (50, 2)
    assert (low < high).all()


def test_each_output_has_an_interval_in_its_units(two_outputs):
    X, _ = draw(50, seed=3)
    whole = width(two_outputs.predict_interval(X.to_numpy()))
    assert whole.shape == (50, 2)
    without_c = width(two_outputs.predict_interval(hidden(X, "c").to_numpy()))
    # The second output depends on c alone, the first not at all.
    assert np.median(without_c[:, 1] / whole[:, 1]) > 3
    assert np.median(without_c[:, 0] / whole[:, 0]) < 1.5
    assert 1500 < np.median(without_c[:, 1]) < 6000


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, float("nan")])
def test_coverage_must_be_between_0_and_1(regressor, classifier, coverage):
    row = [[0.0, 0.0, 0.0]]
    reason = f"coverage must be a number above 0 and below 1.*got {coverage}"
    with pytest.raises(ValueError, match=reason):
        regressor.predict_interval(row, coverage)
    with pytest.raises(ValueError, match=reason):
        classifier.predict_set(row, coverage)


@pytest.mark.parametrize("columns", [(), ("a",), ("b", "c"), ("a", "b", "c")], ids=str)
def test_sets_have_their_coverage_and_are_never_empty(classifier, columns):
    X, y = draw_classes(3000, seed=2)
    sets = classifier.predict_set(hidden(X, columns), coverage=0.8)
    assert sets.dtype == bool
    assert sets.shape == (3000, 3)
    assert sets.any(axis=1).all()
    assert sets[classifier.classes_ == y[:, None]].mean() > 0.75
    larger = classifier.predict_set(hidden(X, columns), coverage=0.99)
    assert (sets <= larger).all()


def test_sets_grow_if_informative_columns_are_missing(classifier):
    X, _ = draw_classes(500, seed=3)
    sizes = [classifier.predict_set(hidden(X, columns)).sum(axis=1).mean() for columns in ((), "b", "a")]
    assert 1 <= sizes[0] < 1.4
    assert sizes[0] <= sizes[1] < sizes[2] - 0.5


@pytest.mark.parametrize("columns", MASKS, ids=str)
def test_the_expected_error_and_the_most_informative_missing_column_are_right(regressor, columns):
    X, y = draw_noisy(2000, seed=4)
    X = hidden(X, columns)
    explanation = regressor.explain_missing(X)
    assert len(explanation) == 2000
    assert explanation["error"].mean() == pytest.approx(np.sqrt(MASKS[columns]), rel=0.15)
    assert explanation["error"].mean() == pytest.approx(
        np.sqrt(np.mean((regressor.predict(X) - y) ** 2)), rel=0.15
    )
    assert explanation["error_if_complete"].mean() == pytest.approx(NOISE, rel=0.15)
    if columns:
        assert set(explanation["most_informative_missing"]) == {columns[0]}
        rest = MASKS[columns[1:]]
        assert explanation["error_if_it_were_observed"].mean() == pytest.approx(np.sqrt(rest), rel=0.15)
    else:
        assert explanation["most_informative_missing"].isna().all()
        np.testing.assert_array_equal(explanation["error"], explanation["error_if_complete"])


def test_the_member_weights_sum_to_one_and_survive_saving(regressor, classifier, two_outputs, tmp_path):
    for model, n_outputs in ((regressor, 1), (classifier, 1), (two_outputs, 2)):
        weights = pd.DataFrame(model.member_weights_)
        assert set(weights.columns) <= {"constant", "mixture", "boosting", "residual boosting", "net"}
        assert list(weights.index) == ["complete rows", "empty rows"]
        for row in weights.to_numpy():
            np.testing.assert_allclose(sum(np.atleast_1d(weight) for weight in row), np.ones(n_outputs))
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.member_weights_ == model.member_weights_
        assert loaded.validation_loss_ == model.validation_loss_


def test_the_validation_loss_is_an_rmse_in_the_units_of_the_target_or_a_log_loss(
    regressor, classifier, two_outputs
):
    # y = 2a + b + noise of standard deviation ½, with c missing in one row of five; c is not informative.
    assert regressor.validation_loss_ == pytest.approx(NOISE, rel=0.2)
    X, y = draw_classes(3000, seed=5)
    X = X.assign(c=X["c"].where(X.index % 5 > 0))
    truth = classifier.predict_proba(X)[np.arange(len(y)), np.searchsorted(classifier.classes_, y)]
    assert classifier.validation_loss_ == pytest.approx(-np.log(truth).mean(), rel=0.25)
    # The second output is 1000 c.
    assert 5 < two_outputs.validation_loss_ < 200


@pytest.mark.parametrize("attribute", ["member_weights_", "validation_loss_"])
def test_attributes_are_defined_after_fit_only(attribute):
    assert not hasattr(AnyMaskRegressor(), attribute)


def check_order(explanation):
    """Observing more never increases the expected error."""
    assert (explanation["error"] >= explanation["error_if_it_were_observed"]).all()
    assert (explanation["error_if_it_were_observed"] >= explanation["error_if_complete"]).all()
    assert (explanation["error_if_complete"] >= 0).all()
    assert (explanation["error_low"] <= explanation["error"]).all()
    assert (explanation["error"] <= explanation["error_high"]).all()


def test_observing_more_never_increases_the_error_and_only_missing_columns_are_named(
    regressor, classifier, two_outputs
):
    X, _ = draw(300, seed=5)
    masked = X.where(np.random.default_rng(0).random(X.shape) < 0.5)
    for model, table in ((regressor, masked), (classifier, masked), (two_outputs, masked.to_numpy())):
        explanation = model.explain_missing(table)
        check_order(explanation)
        for row, column in zip(
            masked.itertuples(index=False), explanation["most_informative_missing"], strict=True
        ):
            named = row._fields[column] if isinstance(column, int | np.integer) else column
            assert pd.isna(named) or np.isnan(getattr(row, named))
        # most_informative_missing is missing only if no column would reduce the error.
        nothing = explanation["most_informative_missing"].isna().to_numpy()
        np.testing.assert_array_equal(
            explanation["error_if_it_were_observed"][nothing], explanation["error"][nothing]
        )
        assert nothing[masked.notna().all(axis=1)].all()


def test_columns_are_named_as_in_fit_or_by_position_if_they_have_no_names(regressor, two_outputs):
    # A few rows are enough to find that a is the most informative.
    X, y = draw_noisy(200, seed=0)
    from_polars = fast(members=["mixture"]).fit(pl.from_pandas(X), pl.Series(y.to_numpy()))
    row = pl.DataFrame({"c": [0.0, 0.0], "b": [None, None], "a": [None, 1.0]}, schema_overrides={"b": float})
    for model in (from_polars, regressor):
        assert model.explain_missing(row)["most_informative_missing"].to_list() == ["a", "b"]
    assert two_outputs.explain_missing([[0.0, None, None], [0.0, 0.0, 0.0]])[
        "most_informative_missing"
    ].tolist() == [
        2,
        None,
    ]


def test_expected_brier_scores_are_right(classifier):
    X, y = draw_classes(2000, seed=6)
    is_class = classifier.classes_ == y[:, None]
    for columns in ((), ("b",), ("a",), ("a", "b")):
        explanation = classifier.explain_missing(hidden(X, columns))
        score = ((classifier.predict_proba(hidden(X, columns)) - is_class) ** 2).sum(axis=1).mean()
        assert explanation["error"].mean() == pytest.approx(score, rel=0.25)
        assert set(explanation["most_informative_missing"].dropna()) == set(columns[:1])
    # Without information the Brier score of three equal classes is 1 − 3 · (1/3)².
    assert explanation["error"].mean() == pytest.approx(2 / 3, rel=0.15)


@pytest.mark.parametrize("estimator", [AnyMaskRegressor, AnyMaskClassifier])
def test_explain_missing_needs_the_mixture(estimator):
    X, y = draw(60)
    model = fast(estimator, members=["boosting"]).fit(X, y > 0)
    with pytest.raises(ValueError, match=r'explain_missing needs the mixture.*Add "mixture" to members'):
        model.explain_missing(X)


def test_intervals_sets_and_explanations_of_a_loaded_model_are_bit_identical(regressor, classifier, tmp_path):
    X, _ = draw(60, seed=7)
    X = X.where(np.random.default_rng(0).random(X.shape) < 0.6)
    for model, method in ((regressor, "predict_interval"), (classifier, "predict_set")):
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
        pd.testing.assert_frame_equal(loaded.explain_missing(X), model.explain_missing(X), check_exact=True)


def test_the_same_seed_gives_the_same_result():
    X, y = draw()
    first, second = (fast().fit(X, y) for _ in range(2))
    X = hidden(X, "a")
    np.testing.assert_array_equal(first.predict_interval(X), second.predict_interval(X))
    np.testing.assert_array_equal(first.explain_missing(X)["error"], second.explain_missing(X)["error"])


def check_outputs(model, X, constant=False):
    """All outputs are finite and have one row per row of X."""
    n = len(X)
    if isinstance(model, AnyMaskClassifier):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert model.predict_set(X).any(axis=1).all()
    else:
        bounds = model.predict_interval(X)
        assert bounds.shape == (n, 2)
        assert np.isfinite(bounds).all()
        assert (width(bounds) >= 0).all() if constant else (width(bounds) > 0).all()
    if "mixture" in model.predictor_.members:
        check_order(model.explain_missing(X))


@pytest.mark.parametrize("estimator", [AnyMaskRegressor, AnyMaskClassifier])
def test_fifty_rows_of_one_column(estimator):
    X = np.linspace(-1, 1, 50)[:, None]
    y = np.where(X[:, 0] > 0, 1, 0)
    X[::10] = np.nan
    model = fast(estimator).fit(X, y)
    check_outputs(model, X)
    assert np.mean(model.predict([[-0.7], [0.7]])) == pytest.approx(0.5, abs=0.2)
    assert model.explain_missing([[None], [0.5]])["most_informative_missing"].tolist() == [0, None]


@pytest.mark.slow
def test_five_hundred_columns_of_eighty_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 500))
    model = fast().fit(X, X[:, 0])
    X[rng.random(X.shape) < 0.3] = np.nan
    check_outputs(model, X)


def test_columns_that_are_entirely_missing_in_training_or_later():
    X, y = draw()
    model = fast().fit(hidden(X, "c"), y)
    # c was never observed, so its values have no influence; a was always observed.
    np.testing.assert_array_equal(model.predict(X), model.predict(hidden(X, "c")))
    for table in (X, hidden(X, "a"), hidden(X, "abc")):
        check_outputs(model, table)
    assert set(model.explain_missing(hidden(X, "ac"))["most_informative_missing"]) == {"a"}


def test_a_constant_target_is_predicted():
    X, _ = draw()
    with pytest.warns(SuspiciousDataWarning, match="target y is constant: it is 7 in all"):
        model = fast().fit(X, np.full(len(X), 7.0))
    X = hidden(X, "a")
    np.testing.assert_allclose(model.predict(X), 7, atol=1e-3)
    np.testing.assert_allclose(model.predict_interval(X), 7, atol=1e-2)
    check_outputs(model, X, constant=True)


def test_probabilities_from_a_tiny_table_are_not_certain():
    X = [[0.0, "wet"], [0.2, None], [None, "wet"], [1.9, "dry"], [None, "dry"], [2.0, "dry"]]
    model = AnyMaskClassifier(random_state=0).fit(X, ["rain"] * 3 + ["sun"] * 3)
    probabilities = model.predict_proba([[1.0, "wet"], [0.0, "wet"], [2.0, "dry"]])
    assert probabilities.min() > 0.1
    assert probabilities.argmax(axis=1).tolist() == [0, 0, 1]


def test_a_class_of_two_rows_is_in_classes():
    X, y = draw()
    labels = np.where(y > 0, "many", "more")
    labels[:2] = "two"
    X.iloc[:2] = 9.0
    model = fast(AnyMaskClassifier).fit(X, labels)
    assert model.classes_.tolist() == ["many", "more", "two"]
    check_outputs(model, hidden(X, "a"))


def test_a_categorical_column_counts_as_one_column():
    """y depends on a column of sixty towns and one of three colours; each counts as one missing column."""
    rng = np.random.default_rng(0)
    n = 1000
    town, colour = rng.integers(60, size=n), rng.integers(3, size=n)
    y = 3.0 * (town % 2) + 1.0 * colour + 0.1 * rng.normal(size=n)
    X = pd.DataFrame(
        {"town": [f"town {t}" for t in town], "colour": np.array(["red", "green", "blue"])[colour]}
    )
    model = fast().fit(X[:800], y[:800])
    new, truth = X[800:], y[800:]
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.6 * truth.std()
    explanation = model.explain_missing(new.assign(town=None, colour=None))
    assert set(explanation["most_informative_missing"]) == {"town"}
    check_order(explanation)
    without = width(model.predict_interval(new.assign(town=None))).mean()
    assert without > 1.5 * width(model.predict_interval(new)).mean()
    # AnyMask is trained for missing values, but still reports an unknown category.
    with pytest.warns(UnknownCategoryWarning, match="'colour' has 'never seen' in 200 rows"):
        model.predict(new.assign(colour="never seen"))
    check_outputs(model.set_params(on_unseen_missing="ignore"), new.assign(colour="never seen"))


def test_skewed_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=1000)
    skewed = np.exp(3 * X)
    model = fast().fit(skewed[:700], y[:700])
    assert np.sqrt(np.mean((model.predict(skewed[700:]) - y[700:]) ** 2)) < 0.5 * y.std()
    check_outputs(model, np.where(rng.random((300, 3)) < 0.5, skewed[700:], np.nan))


def test_rows_count_by_their_weight_and_rows_of_weight_zero_are_ignored():
    """With two targets for each row, predictions follow the heavier one and ignore one of weight zero."""
    X, y = draw(100)
    twice, targets = pd.concat([X, X], ignore_index=True), np.concatenate([y, y + 10])
    first = np.arange(200) < 100
    heavy = fast().fit(twice, targets, sample_weight=np.where(first, 9.0, 1.0))
    assert np.mean(heavy.predict(X) - y) == pytest.approx(1, abs=0.7)
    ignored = fast().fit(twice, targets, sample_weight=np.where(first, 1.0, 0.0))
    np.testing.assert_array_equal(ignored.predict_interval(X), fast().fit(X, y).predict_interval(X))


def test_columns_declared_never_missing_are_checked():
    X, y = draw()
    incomplete = X.assign(a=X["a"].where(X.index % 2 > 0))
    with pytest.raises(ValueError, match="never_missing contains column 0, but it is missing"):
        fast(never_missing=["a"]).fit(incomplete, y)
    model = fast(members=["boosting"], never_missing=["a"]).fit(X, y)
    model.predict(hidden(X, ["b"]))
    for method in (model.predict, model.predict_interval):
        with pytest.warns(UnseenMissingWarning, match="'a'") as caught:
            method(hidden(X, ["a", "b"]))
        assert caught[0].filename == __file__


@pytest.mark.parametrize("columns", [[-1], [3], [True, False, False], [1.7]], ids=str)
def test_invalid_columns_raise(columns):
    X, y = draw(60)
    with pytest.raises(ValueError, match="may_vanish"):
        fast(may_vanish=columns).fit(X, y)


def test_columns_given_as_a_pandas_index_can_be_saved(tmp_path):
    X, y = draw(60)
    model = fast(members=["boosting"], may_vanish=X.columns[:2]).fit(X, y)
    model.save(tmp_path / "model")
    assert list(load_model(tmp_path / "model").may_vanish) == ["a", "b"]


def test_a_column_that_was_never_observed_is_not_informative():
    X, y = draw(200)
    model = fast(members=["mixture"]).fit(hidden(X, ["c"]), y)
    assert model.explain_missing(hidden(X, ["c"]))["most_informative_missing"].isna().all()
