from dataclasses import replace

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.tables import TABLES
from stablemiss.report.long_training import long_trainings
from stablemiss.report.statistics import statistics
from stablemiss.report.summary import summarise

STANDARD = BUDGETS["standard"]


@pytest.fixture(scope="module")
def long(complete):
    """Table 1 and figure 2 trained as published, with errors 100 higher than those of instance 0."""
    methods = ("neumiss", "stablemiss", "stablemiss_full", "stablemiss_unweighted")
    chosen = [
        record
        for record in complete
        if record.dataset == "gaussian_mix"
        and (record.mechanism, record.instance) == ("mar", 0)
        and record.level in (0.1, 0.5)
        and record.label in (*methods, "optimal")
        and (record.label, record.level) not in (("stablemiss", 0.1), ("neumiss", 0.1))
    ]
    return [
        replace(
            record,
            experiment="as_published",
            scores=tuple(
                replace(score, error=score.error + 100 * (record.label != "optimal"))
                for score in record.scores
            ),
        )
        for record in chosen
    ]


def test_only_tables_whose_subject_was_trained_as_published_are_compared(complete, long):
    """Table 2 shares two of these fits, but is not one of the tables."""
    names = [one.table.name for one in long_trainings(complete, STANDARD, long, TABLES.values())]
    assert names == ["table1", "figure2"]
    assert long_trainings(complete, STANDARD, (), TABLES.values()) == []


def test_both_trainings_are_compared_on_the_same_instance(complete, long):
    [training, _] = long_trainings(complete, STANDARD, long, TABLES.values())
    assert [line.label for line in training.lines] == ["neumiss", "stablemiss", "stablemiss_unweighted"]
    for line in training.lines:
        for stopped, late in zip(line.stopped, line.as_published, strict=True):
            assert late.gap == pytest.approx(stopped.gap + 100)
    assert training.stopped.instances[0] == (0,)
    assert training.lines[1].published[0].gap == pytest.approx(431, abs=0.5)
    assert not any(training.lines[2].published)


def test_the_reference_of_each_training_is_shown(complete, long):
    [training, _] = long_trainings(complete, STANDARD, long, TABLES.values())
    references = dict(training.references)
    assert references["stopped early"] == references["1000 epochs"]
    assert references["in print"][0] == 904.87


def test_records_that_stop_early_may_be_missing(long):
    [training, _] = long_trainings([], STANDARD, long, TABLES.values())
    assert training.lines[0].stopped == (None,) * 9


def test_both_plots_have_the_same_methods(complete, long):
    training = long_trainings(complete, STANDARD, long, TABLES.values())[1]
    plotted = [[line.label for line in comparison.lines] for _, comparison in training.plotted()]
    assert plotted == [["stablemiss_full", "stablemiss_unweighted"]] * 2


def test_statistics_say_by_how_much_errors_rise(complete, long):
    values = statistics(summarise(complete, STANDARD, as_published=long))
    training = long_trainings(complete, STANDARD, long, TABLES.values())[0]
    stopped = next(line.stopped for line in training.lines if line.label == "stablemiss")
    expected = sum(100 / cell.rmse for cell in stopped) / len(stopped)
    assert values["late.table1.stablemiss"] == pytest.approx(expected)
    assert values["late.columns.table1"] == 9
    assert values["late.constant.table1.stablemiss"] == 0
