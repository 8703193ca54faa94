"""Which fits are needed, and where each is tested."""

import pytest

from stablemiss.experiments.budgets import BUDGETS, LABELS, settings_of
from stablemiss.experiments.cells import Cell, Exam, cells_of, exams_of, is_of
from stablemiss.experiments.exhibit import ABLATION, EIGHT, LINEAR, OPTIMAL
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.methods import METHODS
from stablemiss.missingness import LEVELS, MECHANISMS

STANDARD = BUDGETS["standard"]


@pytest.mark.parametrize("name", EXHIBITS)
def test_an_exhibit_names_only_what_there_is(name):
    exhibit = EXHIBITS[name]
    assert exhibit.name == name
    assert set(exhibit.methods) <= {*LABELS, LINEAR}
    assert exhibit.reference in {*LABELS, OPTIMAL}
    assert {exhibit.train_mechanism, exhibit.test_mechanism} <= set(MECHANISMS)
    assert len(exhibit.columns) == len(LEVELS)


# The paper's captions: data, mechanism in training and at the test, level in training and at the test, instances.
ALL = "all levels"
CAPTIONS = {
    "table1": ("gaussian_mix", "mar", "mar", 0.5, ALL, 3),
    "table2": ("gaussian_mix", "mar", "mar", ALL, 0.5, 1),
    "table3": ("house_sales", "mar", "mar", 0.5, ALL, 3),
    "table6": ("gaussian_ind", "mcar_independent", "mcar_independent", 0.5, ALL, 3),
    "table7": ("gaussian", "mcar_window", "mcar_window", 0.5, ALL, 3),
    "table8": ("gaussian", "mar", "mar", 0.5, ALL, 3),
    "table9": ("gaussian_mix", "mcar_window", "mcar_window", 0.5, ALL, 3),
    "table10": ("gaussian_mix", "mcar_window", "mar", ALL, ALL, 1),
    "table11": ("gaussian_mix", "mar", "mcar_window", ALL, ALL, 1),
    "figure2": ("gaussian_mix", "mar", "mar", 0.1, ALL, 3),
    "figure3": ("gaussian_ind", "mcar_independent", "mcar_independent", 0.1, ALL, 3),
}


@pytest.mark.parametrize("name", EXHIBITS)
def test_an_exhibit_is_what_the_paper_s_caption_says(name):
    data, train_mechanism, test_mechanism, trained, tested, n_instances = CAPTIONS[name]
    exhibit = EXHIBITS[name]
    assert (exhibit.dataset, exhibit.train_mechanism, exhibit.test_mechanism) == (
        data,
        train_mechanism,
        test_mechanism,
    )
    for levels, said in (
        ([column.train_level for column in exhibit.columns], trained),
        ([column.test_level for column in exhibit.columns], tested),
    ):
        assert levels == (list(LEVELS) if said == ALL else [said] * len(LEVELS))
    assert exhibit.n_instances == n_instances
    assert exhibit.reference == ("stablemiss" if data == "house_sales" else OPTIMAL)
    assert exhibit.reference_in_place == (data == "house_sales")
    assert set(exhibit.methods) >= set(ABLATION if exhibit.is_figure else EIGHT)


def test_stablemiss_is_trained_as_the_paper_says_for_each_mechanism():
    def terms(label, mechanism):
        return settings_of(label, mechanism, is_real=False, budget=STANDARD)[1]["decorrelate"]

    mechanisms = ("mar", "mcar_window", "mcar_independent")
    assert [terms("stablemiss", mechanism) for mechanism in mechanisms] == ["full", "intra", "intra"]
    # A figure compares the terms themselves.
    assert [terms("stablemiss_full", mechanism) for mechanism in mechanisms] == ["full"] * 3


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("label", LABELS)
def test_every_label_can_be_built_at_every_price(budget, label):
    for is_real in (False, True):
        name, settings = settings_of(label, "mar", is_real, BUDGETS[budget])
        METHODS[name](**settings)


def test_one_fit_serves_all_tables_that_look_at_it():
    """Gaussian-Mix trained under MAR at 50% stands in tables 1, 2 and 11."""
    cell = Cell("standard", "gaussian_mix", "mar", 0.5, 0, "ols")
    assert all(cell in cells_of([name], STANDARD) for name in ("table1", "table2", "table11"))
    assert exams_of(cell) == [*(Exam("mar", level) for level in LEVELS), Exam("mcar_window", 0.5)]
    # Later instances only in the table that has them.
    assert exams_of(Cell("standard", "gaussian_mix", "mar", 0.5, 2, "ols")) == [
        Exam("mar", level) for level in LEVELS
    ]


def test_the_reference_of_house_prices_is_trained_where_it_is_tested():
    cells = [cell for cell in cells_of(["table3"], STANDARD) if cell.label == "stablemiss"]
    assert {cell.level for cell in cells} == set(LEVELS)
    assert {cell.level for cell in cells_of(["table3"], STANDARD) if cell.label == "ols"} == {0.5}


def test_no_cell_is_asked_for_twice():
    cells = cells_of(EXHIBITS, STANDARD)
    assert len({cell.key for cell in cells}) == len(cells)


def test_chosen_methods_bring_what_they_are_compared_with():
    assert {cell.label for cell in cells_of(["table1"], STANDARD, ["ols"])} == {
        "ols",
        "constant",
        "linear",
        "optimal",
    }


def test_a_row_without_all_scores_is_not_the_cells():
    cell = Cell("standard", "gaussian_mix", "mar", 0.1, 0, "ols")
    scores = [{"mechanism": test.mechanism, "level": test.level, "rmse": 1.0} for test in exams_of(cell)]
    assert is_of({"key": cell.key, "scores": scores, "error": None}, cell)
    assert not is_of({"key": cell.key, "scores": scores[1:], "error": None}, cell)
    assert is_of({"key": cell.key, "scores": [], "error": "no luck"}, cell)
    assert not is_of({"key": "another", "scores": scores, "error": None}, cell)
