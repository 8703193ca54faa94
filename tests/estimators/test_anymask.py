"""AnyMask behind scikit-learn's interface: intervals, sets, what a hole costs, and tables of all sorts.

The truth is known: y = 2a + b + noise of variance ¼, with independent columns a, b, c of variance one. In
training only c has holes, so all masks with a or b missing are new to the model.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor, load_model
from stablemiss.estimators import UnseenMissingWarning
from stablemiss.methods import AnyMask

NOISE = 0.5
# Which columns are hidden → variance of y that is left.
MASKS = {(): NOISE**2, ("a",): NOISE**2 + 4, ("b",): NOISE**2 + 1, ("a", "b"): NOISE**2 + 5}


def draw(n=150, seed=0):
    X = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] + X["b"]


def draw_noisy(n, seed):
    X, _ = draw(n, seed)
    return X, 2 * X["a"] + X["b"] + NOISE * np.random.default_rng([seed, 1]).normal(size=n)


def draw_classes(n, seed):
    """Three classes along a; b tells a little; c nothing."""
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
def of_two_numbers():
    X, y = draw_noisy(400, seed=0)
    return fast().fit(X.to_numpy(), np.column_stack([y, 1000 * X["c"]]))


def width(bounds):
    return bounds[..., 1] - bounds[..., 0]


def test_columns_can_be_named_or_counted():
    X, y = draw()
    members = ["boosting"]
    named = fast(members=members, never_missing=["c", "a"]).fit(X, y)
    counted = fast(members=members, may_vanish=[1]).fit(X, y)
    np.testing.assert_array_equal(named.predict(X), counted.predict(X))
    general = MissingRegressor(AnyMask("fast", members, may_vanish=[1]), random_state=0).fit(X, y)
    np.testing.assert_array_equal(named.predict(X), general.predict(X))


def test_columns_that_are_not_there_are_refused():
    X, y = draw(50)
    with pytest.raises(
        ValueError, match="never_missing names 'd', but the table has the columns 'a', 'b', 'c'"
    ):
        AnyMaskRegressor(never_missing=["d"]).fit(X, y)
    with pytest.raises(ValueError, match="no column names; give positions"):
        AnyMaskRegressor(may_vanish=["a"]).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="must be a list of columns"):
        AnyMaskRegressor(may_vanish="a").fit(X, y)


def test_a_column_that_was_never_missing_may_go_without_a_word(classifier):
    X, _ = draw_classes(150, seed=1)
    assert classifier.predict_proba(hidden(X, "a")).shape == (150, 3)


@pytest.mark.parametrize(
    ("estimator", "asked"),
    [
        (AnyMaskRegressor, "predict_interval"),
        (AnyMaskRegressor, "explain_missing"),
        (AnyMaskClassifier, "predict_set"),
        (AnyMaskClassifier, "explain_missing"),
    ],
)
def test_nothing_is_answered_before_fit(estimator, asked):
    with pytest.raises(NotFittedError, match="fit"):
        getattr(estimator(), asked)([[1.0]])


@pytest.mark.parametrize("columns", MASKS, ids=str)
def test_intervals_cover_what_they_say_and_are_as_wide_as_they_must_under_new_masks(regressor, columns):
    X, y = draw_noisy(4000, seed=1)
    bounds = regressor.predict_interval(hidden(X, columns), coverage=0.9)
    assert bounds.shape == (4000, 2)
    covered = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert 0.84 < covered < 0.96
    # The narrowest that covers nine in ten of normal errors is 3.29 standard deviations wide.
    assert 0.8 < width(bounds).mean() / (3.29 * np.sqrt(MASKS[columns])) < 1.3


def test_the_prediction_is_inside_and_larger_coverage_contains_smaller(regressor):
    X, _ = draw_noisy(200, seed=2)
    X = hidden(X, "b")
    small, large = (regressor.predict_interval(X, coverage) for coverage in (0.5, 0.95))
    assert (large[:, 0] < small[:, 0]).all()
    assert (small[:, 1] < large[:, 1]).all()
    assert ((small[:, 0] <= regressor.predict(X)) & (regressor.predict(X) <= small[:, 1])).all()


def test_each_of_several_numbers_has_its_interval_in_its_units(of_two_numbers):
    X, _ = draw(50, seed=3)
    whole = width(of_two_numbers.predict_interval(X.to_numpy()))
    assert whole.shape == (50, 2)
    without_c = width(of_two_numbers.predict_interval(hidden(X, "c").to_numpy()))
    # c is all there is to know about the second number, and says nothing about the first.
    assert np.median(without_c[:, 1] / whole[:, 1]) > 3
    assert np.median(without_c[:, 0] / whole[:, 0]) < 1.5
    assert 1500 < np.median(without_c[:, 1]) < 6000


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, float("nan")])
def test_a_coverage_that_is_no_share_is_refused_in_a_sentence(regressor, classifier, coverage):
    row = [[0.0, 0.0, 0.0]]
    reason = rf"^coverage must lie between 0 and 1, for instance 0\.9, but is {coverage}\.$"
    with pytest.raises(ValueError, match=reason):
        regressor.predict_interval(row, coverage)
    with pytest.raises(ValueError, match=reason):
        classifier.predict_set(row, coverage)


@pytest.mark.parametrize("columns", [(), ("a",), ("b", "c"), ("a", "b", "c")], ids=str)
def test_sets_hold_the_true_class_as_often_as_they_say_and_are_never_empty(classifier, columns):
    X, y = draw_classes(3000, seed=2)
    sets = classifier.predict_set(hidden(X, columns), coverage=0.8)
    assert sets.dtype == bool
    assert sets.shape == (3000, 3)
    assert sets.any(axis=1).all()
    assert sets[classifier.classes_ == y[:, None]].mean() > 0.75
    larger = classifier.predict_set(hidden(X, columns), coverage=0.99)
    assert (sets <= larger).all()


def test_sets_are_small_where_the_class_is_known_and_grow_where_it_is_not(classifier):
    X, _ = draw_classes(500, seed=3)
    sizes = [classifier.predict_set(hidden(X, columns)).sum(axis=1).mean() for columns in ((), "b", "a")]
    assert 1 <= sizes[0] < 1.4
    assert sizes[0] <= sizes[1] < sizes[2] - 0.5


@pytest.mark.parametrize("columns", MASKS, ids=str)
def test_the_error_to_expect_is_the_true_one_and_the_costliest_column_the_right_one(regressor, columns):
    X, y = draw_noisy(2000, seed=4)
    X = hidden(X, columns)
    found = pd.DataFrame(regressor.explain_missing(X))
    assert len(found) == 2000
    assert found["error"].mean() == pytest.approx(np.sqrt(MASKS[columns]), rel=0.15)
    assert found["error"].mean() == pytest.approx(np.sqrt(np.mean((regressor.predict(X) - y) ** 2)), rel=0.15)
    assert found["error_if_complete"].mean() == pytest.approx(NOISE, rel=0.15)
    if columns:
        assert set(found["most_informative_missing"]) == {columns[0]}
        rest = MASKS[columns[1:]]
        assert found["error_if_it_were_observed"].mean() == pytest.approx(np.sqrt(rest), rel=0.15)
    else:
        assert found["most_informative_missing"].isna().all()
        np.testing.assert_array_equal(found["error"], found["error_if_complete"])


def check_order(found):
    """More seen is never worse."""
    assert (found["error"] >= found["error_if_it_were_observed"]).all()
    assert (found["error_if_it_were_observed"] >= found["error_if_complete"]).all()
    assert (found["error_if_complete"] >= 0).all()


def test_whatever_is_missing_seeing_more_never_costs_and_only_missing_columns_are_named(
    regressor, classifier, of_two_numbers
):
    X, _ = draw(300, seed=5)
    holes = X.where(np.random.default_rng(0).random(X.shape) < 0.5)
    for model, table in ((regressor, holes), (classifier, holes), (of_two_numbers, holes.to_numpy())):
        found = model.explain_missing(table)
        check_order(found)
        for row, column in zip(holes.itertuples(index=False), found["most_informative_missing"], strict=True):
            named = row._fields[column] if isinstance(column, int | np.integer) else column
            assert named is None or np.isnan(getattr(row, named))
        # None is most_informative_missing only where there is nothing to gain.
        nothing = np.array([column is None for column in found["most_informative_missing"]])
        np.testing.assert_array_equal(found["error_if_it_were_observed"][nothing], found["error"][nothing])
        assert nothing[holes.notna().all(axis=1)].all()


def test_columns_are_named_after_the_table_of_the_fit_and_counted_if_it_had_no_names(
    regressor, of_two_numbers
):
    # A few rows are enough to see that a matters most.
    X, y = draw_noisy(200, seed=0)
    of_polars = fast(members=["mixture"]).fit(pl.from_pandas(X), pl.Series(y.to_numpy()))
    row = pl.DataFrame({"c": [0.0, 0.0], "b": [None, None], "a": [None, 1.0]}, schema_overrides={"b": float})
    assert of_polars.explain_missing(row)["most_informative_missing"].tolist() == ["a", "b"]
    assert regressor.explain_missing(row)["most_informative_missing"].tolist() == ["a", "b"]
    assert of_two_numbers.explain_missing([[0.0, None, None], [0.0, 0.0, 0.0]])[
        "most_informative_missing"
    ].tolist() == [
        2,
        None,
    ]


def test_brier_scores_to_expect_of_classes_are_the_true_ones(classifier):
    X, y = draw_classes(2000, seed=6)
    is_class = classifier.classes_ == y[:, None]
    for columns in ((), ("b",), ("a",), ("a", "b")):
        found = classifier.explain_missing(hidden(X, columns))
        score = ((classifier.predict_proba(hidden(X, columns)) - is_class) ** 2).sum(axis=1).mean()
        assert found["error"].mean() == pytest.approx(score, rel=0.25)
        assert set(found["most_informative_missing"]) == {columns[0] if columns else None}
    # With nothing to go by, three equal classes leave 1 − 3 · (1/3)².
    assert found["error"].mean() == pytest.approx(2 / 3, rel=0.15)


@pytest.mark.parametrize("estimator", [AnyMaskRegressor, AnyMaskClassifier])
def test_without_the_mixture_nobody_knows_what_a_hole_costs(estimator):
    X, y = draw(60)
    model = fast(estimator, members=["boosting"]).fit(X, y > 0)
    with pytest.raises(ValueError, match='fitted without it: "mixture" was not among the members'):
        model.explain_missing(X)


def test_a_stored_model_gives_the_same_intervals_sets_and_costs_bit_by_bit(regressor, classifier, tmp_path):
    X, _ = draw(60, seed=7)
    X = X.where(np.random.default_rng(0).random(X.shape) < 0.6)
    for model, asked in ((regressor, "predict_interval"), (classifier, "predict_set")):
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(getattr(loaded, asked)(X), getattr(model, asked)(X))
        for name, told in model.explain_missing(X).items():
            np.testing.assert_array_equal(loaded.explain_missing(X)[name], told)


def test_same_seed_same_result():
    X, y = draw()
    one, other = (fast().fit(X, y) for _ in range(2))
    holes = hidden(X, "a")
    np.testing.assert_array_equal(one.predict_interval(holes), other.predict_interval(holes))
    np.testing.assert_array_equal(one.explain_missing(holes)["error"], other.explain_missing(holes)["error"])


def check_answers(model, X, constant=False):
    """All answers are there, for every row, and finite."""
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
def test_fifty_rows_of_one_column_are_a_table(estimator):
    X = np.linspace(-1, 1, 50)[:, None]
    y = np.where(X[:, 0] > 0, 1, 0)
    X[::10] = np.nan
    model = fast(estimator).fit(X, y)
    check_answers(model, X)
    assert np.mean(model.predict([[-0.7], [0.7]])) == pytest.approx(0.5, abs=0.2)
    assert model.explain_missing([[None], [0.5]])["most_informative_missing"].tolist() == [0, None]


def test_five_hundred_columns_of_eighty_rows_are_a_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 500))
    model = fast().fit(X, X[:, 0])
    X[rng.random(X.shape) < 0.3] = np.nan
    check_answers(model, X)


def test_columns_all_missing_in_training_or_later_are_no_obstacle():
    X, y = draw()
    model = fast().fit(hidden(X, "c"), y)
    # c was never seen, so its coming tells nothing; a was always there, and goes.
    np.testing.assert_array_equal(model.predict(X), model.predict(hidden(X, "c")))
    for table in (X, hidden(X, "a"), hidden(X, "abc")):
        check_answers(model, table)
    assert set(model.explain_missing(hidden(X, "ac"))["most_informative_missing"]) == {"a"}


def test_a_constant_target_is_met():
    X, _ = draw()
    model = fast().fit(X, np.full(len(X), 7.0))
    holes = hidden(X, "a")
    np.testing.assert_allclose(model.predict(holes), 7, atol=1e-3)
    np.testing.assert_allclose(model.predict_interval(holes), 7, atol=1e-2)
    check_answers(model, holes, constant=True)


def test_a_class_of_two_rows_is_known():
    X, y = draw()
    labels = np.where(y > 0, "many", "more")
    labels[:2] = "two"
    X.iloc[:2] = 9.0
    model = fast(AnyMaskClassifier).fit(X, labels)
    assert model.classes_.tolist() == ["many", "more", "two"]
    check_answers(model, hidden(X, "a"))


def test_categories_few_or_many_count_as_one_column_each():
    """A town of sixty and a colour of three both move y; each is one column to be missed."""
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
    found = model.explain_missing(new.assign(town=None, colour=None))
    assert set(found["most_informative_missing"]) == {"town"}
    check_order(found)
    without = width(model.predict_interval(new.assign(town=None))).mean()
    assert without > 1.5 * width(model.predict_interval(new)).mean()
    check_answers(model, new.assign(colour="never seen"))


def test_skewed_columns_do_no_harm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=1000)
    skewed = np.exp(3 * X)
    model = fast().fit(skewed[:700], y[:700])
    assert np.sqrt(np.mean((model.predict(skewed[700:]) - y[700:]) ** 2)) < 0.5 * y.std()
    check_answers(model, np.where(rng.random((300, 3)) < 0.5, skewed[700:], np.nan))


def test_rows_count_by_their_weight_and_rows_of_weight_zero_not_at_all():
    """Of two stories about the same rows the heavier wins, and one without weight is not heard."""
    X, y = draw(100)
    twice, stories = pd.concat([X, X], ignore_index=True), np.concatenate([y, y + 10])
    first = np.arange(200) < 100
    heavy = fast().fit(twice, stories, sample_weight=np.where(first, 9.0, 1.0))
    assert np.mean(heavy.predict(X) - y) == pytest.approx(1, abs=0.7)
    unheard = fast().fit(twice, stories, sample_weight=np.where(first, 1.0, 0.0))
    np.testing.assert_array_equal(unheard.predict_interval(X), fast().fit(X, y).predict_interval(X))


def test_a_promise_is_held_against_the_table():
    X, y = draw()
    holed = X.assign(a=X["a"].where(X.index % 2 > 0))
    with pytest.raises(ValueError, match="some rows miss it already"):
        fast(never_missing=["a"]).fit(holed, y)
    model = fast(members=["boosting"], never_missing=["a"]).fit(X, y)
    model.predict(hidden(X, ["b"]))
    for ask in (model.predict, model.predict_interval):
        with pytest.warns(UnseenMissingWarning, match="'a'") as caught:
            ask(hidden(X, ["a", "b"]))
        assert caught[0].filename == __file__


@pytest.mark.parametrize("strange", [[-1], [3], [True, False, False], [1.7]], ids=str)
def test_what_is_no_column_is_refused(strange):
    X, y = draw(60)
    with pytest.raises(ValueError, match="may_vanish"):
        fast(may_vanish=strange).fit(X, y)


def test_columns_given_as_a_pandas_index_can_be_stored(tmp_path):
    X, y = draw(60)
    model = fast(members=["boosting"], may_vanish=X.columns[:2]).fit(X, y)
    model.save(tmp_path / "model")
    assert list(load_model(tmp_path / "model").may_vanish) == ["a", "b"]


def test_a_column_never_seen_is_not_the_costliest():
    X, y = draw(200)
    model = fast(members=["mixture"]).fit(hidden(X, ["c"]), y)
    assert model.explain_missing(hidden(X, ["c"]))["most_informative_missing"].tolist() == [None] * len(X)
