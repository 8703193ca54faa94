import pytest

from stablemiss.experiments.demo import DEMO_MECHANISMS, DEMO_METHODS, N_FEATURES, run_demo
from stablemiss.missingness import LEVELS, MECHANISMS


@pytest.fixture(scope="module")
def rows():
    return run_demo(rows=200)


def test_every_method_is_scored_at_all_nine_levels(rows):
    assert [row["test_level"] for row in rows if row["method"] == "optimal"] == list(LEVELS)
    methods = {row["method"] for row in rows if row["role"] == "method"}
    assert methods == set(DEMO_METHODS)
    assert len(rows) == (len(DEMO_METHODS) + 3) * len(LEVELS)


def test_the_rows_say_what_was_run(rows):
    for row in rows:
        assert (row["dataset"], row["mechanism"], row["train_level"]) == ("Gaussian-Mix", "MAR", 0.1)
        assert (row["n_features"], row["n_rows"], row["n_test_rows"]) == (N_FEATURES, 200, 100)
    augmented = next(row for row in rows if row["method"] == "boosting, masked copies")
    assert augmented["config"]["class"] == "Boosting"
    assert augmented["config"]["masked_copies"] > 0


def test_only_mechanisms_under_which_the_reference_is_optimal_are_taken():
    assert set(DEMO_MECHANISMS) <= set(MECHANISMS)
    with pytest.raises(ValueError, match="mar, mcar_window, mcar_independent, but is 'mnar'"):
        run_demo(mechanism="mnar")


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 10.0])
def test_a_level_is_a_share(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        run_demo(train_level=level)
