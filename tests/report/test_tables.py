import random

import pytest

from stablemiss.report.tables import gap_table, percent


def by_name(lines):
    return {line["method"]: line["cells"] for line in lines}


def test_cells_are_rmse_minus_optimal_and_that_as_a_share(rows):
    table = gap_table(rows)
    assert table["test_levels"] == [0.1, 0.5, 0.9]
    assert table["optimal_rmse"] == [100.0, 200.0, 400.0]
    assert table["constant_rmse"] == [500.0, 500.0, 500.0]
    methods, references = by_name(table["methods"]), by_name(table["references"])
    assert list(methods) == ["ols", "boosting", "em_mixture"]
    assert [cell["gap"] for cell in methods["ols"]] == [50.0, 60.0, 80.0]
    assert [cell["share"] for cell in methods["ols"]] == [0.5, 0.3, 0.2]
    assert [cell["gap"] for cell in references["linear"]] == [10.0, 30.0, 10.0]
    assert [cell["gap"] for cell in references["constant"]] == [400.0, 300.0, 100.0]
    assert "optimal" not in references


def test_best_and_second_are_marked_per_level_among_methods_only(rows):
    methods = by_name(gap_table(rows)["methods"])
    assert [cell["mark"] for cell in methods["em_mixture"]] == ["best", "best", "best"]
    assert [cell["mark"] for cell in methods["boosting"]] == ["second", "", ""]
    assert [cell["mark"] for cell in methods["ols"]] == ["", "second", "second"]
    references = by_name(gap_table(rows)["references"])
    assert {cell["mark"] for cells in references.values() for cell in cells} == {""}


def test_the_star_stands_where_the_test_level_is_the_training_level(rows):
    for line in gap_table(rows)["methods"]:
        assert [cell["same_level"] for cell in line["cells"]] == [True, False, False]


def test_worse_than_constant_compares_rmse_at_the_same_level(rows):
    methods = by_name(gap_table(rows)["methods"])
    assert [cell["worse_than_constant"] for cell in methods["boosting"]] == [False, False, True]
    assert not any(cell["worse_than_constant"] for cell in methods["ols"])


@pytest.mark.parametrize("seed", range(5))
def test_order_of_levels_does_not_matter(rows, seed):
    """Rows of a method may come in any order of levels; the order of methods is that of their first row."""
    shuffled = sorted(rows, key=lambda row: random.Random(f"{seed}{row['test_level']}").random())
    assert gap_table(shuffled) == gap_table(rows)


def test_rows_that_differ_in_their_seed_are_averaged(rows):
    again = [
        {**row, "seed": 1, "rmse": row["rmse"] + 10, "optimal_rmse": row["optimal_rmse"] + 2} for row in rows
    ]
    ols = by_name(gap_table(rows + again)["methods"])["ols"]
    assert [cell["gap"] for cell in ols] == [54.0, 64.0, 84.0]


def test_a_score_that_is_not_there_leaves_an_empty_cell(rows):
    fewer = [row for row in rows if (row["method"], row["test_level"]) != ("em_mixture", 0.5)]
    table = gap_table(fewer)
    assert by_name(table["methods"])["em_mixture"][1] is None
    assert by_name(table["methods"])["ols"][1]["mark"] == "best"


def test_mixed_settings_and_no_rows_are_refused_in_a_sentence(rows):
    with pytest.raises(ValueError, match="hold 2 of them"):
        gap_table([*rows, {**rows[0], "train_level": 0.5}])
    with pytest.raises(ValueError, match="at least one result row"):
        gap_table([])


def test_small_numbers_keep_decimals(rows):
    small = [{**row, "rmse": row["rmse"] / 100, "optimal_rmse": row["optimal_rmse"] / 100} for row in rows]
    assert gap_table(rows)["decimals"] == 0
    assert gap_table(small)["decimals"] == 2


def test_percent_has_no_rounding_noise():
    assert [percent(level) for level in (0.1, 0.3, 0.7, 0.075, 1.0)] == ["10%", "30%", "70%", "7.5%", "100%"]
