"""What changed between two runs: RMSE on the same tests, label by label."""

from dataclasses import replace

import pytest

from stablemiss.report.changes import Change, changes_markdown, measure_changes
from stablemiss.results import Record, Score


def record(label, *errors, dataset="gaussian", instance=0):
    scores = tuple(Score("mar", level, error) for level, error in zip((0.1, 0.5, 0.9), errors, strict=False))
    return Record("standard", dataset, "mar", 0.5, instance, label, seed=instance, scores=scores)


def test_the_ratio_is_averaged_over_tests_that_both_runs_have():
    before = [record("dwr", 10.0, 20.0), record("dwr", 5.0, dataset="house_sales")]
    after = [record("dwr", 11.0, 18.0, 7.0), record("dwr", 6.0, dataset="house_sales")]
    [change] = measure_changes(before, after)
    assert change == Change("dwr", pytest.approx((0.1 - 0.1) / 2), pytest.approx(0.2), n=2)


def test_fits_of_only_one_run_and_labels_without_a_change_are_left_out():
    before = [record("dwr", 10.0), record("constant", 10.0)]
    after = [record("dwr", 10.0, instance=1), record("constant", 12.0), record("srdo", 1.0)]
    assert measure_changes(before, after) == []


def test_a_failed_fit_counts_without_tests():
    after = [replace(record("ols"), failure="no luck")]
    assert measure_changes([record("ols", 10.0)], after) == [Change("ols", None, None, n=1)]


def test_the_table_has_a_row_for_each_label_in_the_order_of_the_changes():
    labels = ["srdo", "stablemiss"]
    before = [record(label, 10.0) for label in labels]
    lines = changes_markdown(before, [record(label, 9.0) for label in labels]).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| StableMiss", "| SRDO"]
    assert all("10.0%" in line for line in lines[2:])
