"""A record contains everything about a run, and a round trip through JSON does not change it."""

from dataclasses import replace

import pytest

from stablemiss.results import Record, Score

RECORD = Record(
    experiment="quick",
    dataset="gaussian",
    mechanism="mar",
    level=0.5,
    instance=0,
    label="ols",
    seed=1000,
    scores=(Score("mar", 0.9, 1.5, 0.1), Score("clean", None, 1.0, extra={"coverage": 0.9})),
    settings={"n_rows": 100},
    fit_seconds=2.0,
)


def test_a_record_is_unchanged_by_a_round_trip_through_json():
    assert Record.from_json(RECORD.to_json()) == RECORD
    assert "\n" not in replace(RECORD, failure="two\nlines").to_json()


def test_the_key_identifies_a_run():
    assert RECORD.key == "quick gaussian mar 0.5 0 ols"
    assert replace(RECORD, seed=7, fit_seconds=1.0).key == RECORD.key
    changed = [{"experiment": "x"}, {"dataset": "x"}, {"mechanism": "x"}, {"level": 0.1}, {"instance": 1}]
    assert len({replace(RECORD, **change).key for change in (*changed, {"label": "x"})}) == 6


def test_the_outcome_excludes_fields_that_differ_between_executions():
    slow = replace(
        RECORD,
        fit_seconds=9.0,
        finished="later",
        peak_memory=1,
        scores=tuple(replace(score, predict_seconds=9.0) for score in RECORD.scores),
    )
    assert slow.outcome() == RECORD.outcome()
    assert replace(RECORD, scores=()).outcome() != RECORD.outcome()


def test_non_finite_numbers_raise():
    with pytest.raises(ValueError, match="JSON compliant"):
        replace(RECORD, scores=(Score("mar", 0.5, float("nan")),)).to_json()


@pytest.mark.parametrize(
    "change",
    [
        ('"label": "ols"', '"label": 7'),
        ('"instance": 0', '"instance": "0"'),
        ('"error": 1.5', '"error": "1.5"'),
        ('"seed": 1000', '"sead": 1000'),
        ('"scores": [', '"scorse": ['),
        ('"settings": {"n_rows": 100}', '"settings": 3'),
    ],
)
def test_a_line_that_is_not_a_record_raises(change):
    line = RECORD.to_json()
    assert change[0] in line
    with pytest.raises(ValueError, match="not a result record"):
        Record.from_json(line.replace(*change))
