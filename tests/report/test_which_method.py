"""The page that compares all methods shows the mean and the worst column of each."""

from statistics import fmean

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.report.summary import distinct_columns, summarise
from stablemiss.report.text import as_percent, title_of
from stablemiss.report.which_method import which_method_markdown


@pytest.fixture(scope="module")
def blocks(complete_summary):
    text = which_method_markdown(complete_summary)
    return [
        [line.strip("| ").split(" | ") for line in block.splitlines()] for block in text.strip().split("\n\n")
    ]


def test_there_is_a_table_for_tables_and_one_for_images_and_sensors(blocks):
    tables, arrays = (block[0] for block in blocks)
    assert tables[-5:] == ["Gaussian", "Gaussian-Ind", "Gaussian-Mix", "House sales", "fit"]
    assert arrays[-4:] == ["MNIST", "Berlin traffic", "fit, images", "fit, sensors"]


def test_a_cell_is_the_mean_and_the_worst_of_all_columns_of_a_data_set(blocks, complete_summary):
    summary = complete_summary
    gaps = [
        comparison.column(number)["neumiss"].relative_gap
        for comparison, number in distinct_columns(summary.tables)
        if comparison.table.dataset == "gaussian" and "neumiss" in comparison.column(number)
    ]
    row = next(row for row in blocks[0] if row[0] == title_of("neumiss"))
    assert row[1] == f"{as_percent(fmean(gaps))} ({as_percent(max(gaps))})"


def test_errors_of_images_are_relative_to_the_lowest_of_the_column(blocks, complete_summary):
    table = next(one for one in complete_summary.arrays if one.table.name == "table4")
    columns = [table.column(number) for number in range(len(table.columns))]
    errors = [column["ols"].rmse / min(cell.rmse for cell in column.values()) - 1 for column in columns]
    row = next(row for row in blocks[1] if row[0] == title_of("ols"))
    assert row[1] == f"{as_percent(fmean(errors))} ({as_percent(max(errors))})"
    assert min(errors) > 0


def test_methods_that_were_not_run_in_all_columns_say_so_and_come_last(complete):
    fewer = [record for record in complete if (record.label, record.mechanism) != ("ols", "mcar_window")]
    text = which_method_markdown(summarise(fewer, BUDGETS["standard"]))
    rows = text.split("\n\n")[0].splitlines()[2:]
    place = next(i for i, row in enumerate(rows) if row.startswith(f"| {title_of('ols')} |"))
    assert " of " in rows[place]
    complete_rows = [i for i, row in enumerate(rows) if " of " not in row and "–" not in row]
    assert place > max(complete_rows)
