import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from stablemiss.experiments import dead_column
from stablemiss.experiments.dead_column import ADAPTED, ANYMASK, BEFORE, CONSTANT, LIGHTGBM, NOW, RETRAINED
from stablemiss.experiments.reproduce import run_demo
from stablemiss.experiments.tables import demo_table
from stablemiss.report import dead_column as view
from stablemiss.report.page import render_page

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dead column")]


@pytest.fixture(scope="module")
def story():
    return dead_column.run_dead_column(seed=0, rows=300)


def test_lightgbm_loses_far_more_than_anymask(story):
    assert story.score(LIGHTGBM, NOW).error > 1.25 * story.score(ANYMASK, NOW).error
    assert story.r2(CONSTANT, NOW) == 0


def test_scores_are_the_errors_of_the_predictions_that_are_drawn(story):
    for label, predicted in story.predictions.items():
        error = np.sqrt(np.mean((predicted - story.actual) ** 2))
        assert story.score(label, NOW).error == pytest.approx(error)


def test_models_that_were_made_after_the_change_have_no_score_before_it(story):
    for label in (ADAPTED, RETRAINED):
        assert story.score(label, BEFORE) is None
        assert story.score(label, NOW).error < story.score(LIGHTGBM, NOW).error


def test_intervals_become_wider_without_the_column(story):
    widths = {when: np.diff(intervals, axis=1).mean() for when, intervals in story.intervals.items()}
    assert widths[NOW] > 1.2 * widths[BEFORE]
    assert 0.6 < story.score(ANYMASK, NOW).extra["coverage"] <= 1


def test_the_diagnosis_names_the_column_and_the_stress_test_has_both_models(story):
    assert story.diagnosis.verdict == "shift"
    assert story.diagnosis.newly_missing == [story.column]
    assert set(story.stress.models) == {LIGHTGBM, ANYMASK}


def test_labels_of_the_view_are_those_of_the_records():
    for name in ("BEFORE", "NOW", "LIGHTGBM", "ANYMASK", "ADAPTED"):
        assert getattr(view, name) == getattr(dead_column, name)


def test_terminal_and_page_show_the_same_numbers_and_the_page_has_the_records(story, open_on_phone):
    text = io.StringIO()
    view.print_dead_column(story, Console(file=text, width=100))
    table = replace(demo_table(), methods=("constant",))
    budget, records = run_demo(table, rows=200)
    page = render_page(records, budget, demo=table, story=story)
    for label, *numbers in view.error_rows(story):
        assert label in text.getvalue()
        for number in numbers[:3]:
            assert number in text.getvalue()
            assert f"<td>{number}</td>" in page
    found = open_on_phone(page)
    assert found["page"] <= found["seen"]
