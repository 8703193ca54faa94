from dataclasses import replace

import pytest

from stablemiss.experiments.array_tables import ARRAY_DATASETS
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.tables import TABLES
from stablemiss.report.summary import distinct_columns, summarise
from stablemiss.report.text import instances_text

QUICK, STANDARD = BUDGETS["quick"], BUDGETS["standard"]


def test_only_tables_with_a_score_or_a_failure_are_shown(stored, complete_summary):
    assert [one.table.name for one in summarise(stored, QUICK).comparisons] == ["table1", "table2", "table11"]
    assert [one.table.name for one in complete_summary.comparisons] == list(TABLES)


def test_records_of_other_budgets_are_ignored(stored):
    standard = [replace(record, experiment="standard") for record in stored]
    assert summarise([*stored, *standard], QUICK) == summarise(stored, QUICK)
    with pytest.raises(ValueError, match="stablemiss reproduce table1 --budget quick"):
        summarise(standard, QUICK)


def test_the_order_of_the_records_does_not_matter(complete, complete_summary):
    assert summarise(complete[::-1], STANDARD) == complete_summary


def test_a_column_that_two_tables_share_counts_once(complete_summary):
    tables = [one for one in complete_summary.comparisons if not one.table.is_figure]
    assert len(distinct_columns(tables)) == 68
    assert sum(len(one.columns) for one in tables) == 69


def test_settings_times_and_configurations_are_those_of_the_records(stored):
    slow = [replace(one, fit_seconds=1000.0) if one.label == "ols" else one for one in stored]
    summary = summarise(slow, QUICK)
    settings = dict(summary.settings)
    data = "gaussian_mix: 1,000 rows of 12 columns for training and validation, 500 test rows (instances: 1)"
    assert settings["Data"] == data
    assert settings["Versions"] == "python 3.11.7"
    assert settings["Fits that took longer than 10 s"] == "1 of 8 (OLS)"
    assert {timing.label for timing in summary.timings} == {one.label for one in stored} - {"miwae"}
    assert ("ols", "gaussian_mix", '{"class": "ols", "hidden": [128, 128]}') in summary.configurations


def test_slow_fits_are_listed_by_method(complete):
    """At a budget that names tables as well."""
    slow = [replace(one, fit_seconds=1000.0) if one.label == "ols" else one for one in complete]
    tables = [one for one in complete if one.dataset not in ARRAY_DATASETS]
    n_slow = sum(one.label == "ols" for one in tables)
    settings = dict(summarise(slow, STANDARD).settings)
    assert settings["Fits that took longer than 240 s"] == f"{n_slow} of {len(tables)} (OLS)"
    assert settings["Fits to images and sensors that took longer than 25 minutes"] == "none"


def test_the_number_of_instances_is_written_as_a_range_if_columns_differ(two_instances):
    [table1, *_] = summarise(two_instances, STANDARD).comparisons
    assert instances_text(table1) == "2 of 5"
    uneven = [one for one in two_instances if one.instance == 0 or one.label != "optimal"]
    assert instances_text(summarise(uneven, STANDARD).comparisons[0]) == "1 of 5"


def test_tables_that_were_not_run_and_missing_results_are_named(stored, complete_summary):
    settings = dict(summarise(stored, QUICK).settings)
    assert settings["Not run"].startswith("Table 3, Table 6, ")
    assert settings["Not run"].endswith("Figure 3, Table 4, Table 5")
    assert settings["Results missing in"].startswith("Table 1 (57 of 75 cells)")
    assert "Results missing in" not in dict(complete_summary.settings)


def test_times_of_images_and_sensors_are_those_of_their_own_kind_and_limit(stored):
    """A fit of ten minutes is slow at "quick" for a table, but not for images."""
    images, sensors = (
        replace(stored[0], dataset=dataset, label="ols", fit_seconds=seconds)
        for dataset, seconds in (("mnist", 600.0), ("berlin", 1600.0))
    )
    summary = summarise([*stored, images, sensors], QUICK)
    times = {(one.label, one.data): (one.n, one.max_fit) for one in summary.timings}
    assert times["ols", "tables"] == (1, 1.5)
    assert times["ols", "images"] == (1, 600.0)
    assert times["ols", "sensors"] == (1, 1600.0)
    settings = dict(summary.settings)
    assert settings["Fits that took longer than 10 s"] == "none"
    assert settings["Fits to images and sensors that took longer than 25 minutes"] == "1 of 2 (OLS)"
