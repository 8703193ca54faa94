"""Tables with images and sensor networks: their runs, rows and comparison."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from stablemiss.datasets import Graph, ImageDataset, SensorData, SensorWindows
from stablemiss.datasets.times import week_number
from stablemiss.evaluation import TestSetting
from stablemiss.experiments import image_problem, sensor_problem
from stablemiss.experiments.array_comparison import compare_arrays
from stablemiss.experiments.array_methods import NETWORKS, RIDGE, array_settings
from stablemiss.experiments.array_tables import ARRAY_TABLES, DISTRICTS_DARK, NO_OUTAGE, SENSORS_DARK
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.execute import execute, with_graph
from stablemiss.experiments.reproduce import Reproduction
from stablemiss.experiments.runs import Run, plan_array_runs
from stablemiss.experiments.sensor_problem import (
    TEST_WEEK,
    WEEKS_PER_CYCLE,
    SensorNetwork,
    sensor_network,
    shown_outage,
)
from stablemiss.experiments.tables import PAPER_METHODS
from stablemiss.methods import METHODS
from stablemiss.report.claims import judge_claims
from stablemiss.report.markdown import reproduction_markdown
from stablemiss.report.summary import summarise
from stablemiss.results import Record, Score

QUICK = BUDGETS["quick"]
TINY = replace(QUICK, n_images=60, n_test_images=20, window_stride=200)
MNIST = Run(TINY, "mnist", "mar", 0.5, 0, "constant", (TestSetting("mar", 0.1), TestSetting("mar", 0.9)))
NATURAL = Run(TINY, "berlin", "2023", None, 0, "hour_of_week", (TestSetting("2024"),))
OUTAGES = tuple(
    TestSetting(name, level) for name, level in ((NO_OUTAGE, 0.0), (SENSORS_DARK, 0.3), (DISTRICTS_DARK, 0.3))
)
IMPOSED = Run(replace(TINY, window_stride=12), "berlin", NO_OUTAGE, 0.0, 0, "hour_of_week", OUTAGES)


@cache
def draw_roads():
    """Sixteen sensors of a generated network, of which a tenth of the readings is missing.

    Readings have a daily course, a memory of hours, a disturbance that all sensors share, and noise.
    """
    rng = np.random.default_rng(0)
    times = np.arange("2023-01-01", "2024-04-01", dtype="datetime64[h]")
    deviation, shocks = np.zeros((len(times), 16)), rng.normal(size=(len(times), 16))
    shocks += 2 * rng.normal(size=(len(times), 1))
    for hour in range(1, len(times)):
        deviation[hour] = 0.9 * deviation[hour - 1] + shocks[hour]
    values = 40 + 5 * np.sin(np.arange(len(times)) * np.pi / 12)[:, None] + deviation
    values[rng.random(values.shape) < 0.1] = np.nan
    places = rng.uniform([52.3, 13.1], [52.6, 13.7], size=(16, 2))
    names = tuple(f"road {number}" for number in range(16))
    graph = Graph.nearest(places, k=3, names=names)
    periods = {"2023": ("2023-01-01", "2024-01-01"), "2024": ("2024-01-01", None)}
    return SensorNetwork(SensorData(values, times, names, places), graph, periods)


@cache
def draw_images():
    """Blobs at random places, of 12 × 12 pixels."""
    rng = np.random.default_rng(0)
    place = np.stack(np.meshgrid(np.arange(12), np.arange(12), indexing="ij"))
    centre = rng.uniform(2, 10, size=(400, 2, 1, 1))
    images = 255 * np.exp(-((place - centre) ** 2).sum(axis=1) / 10)
    return ImageDataset(images.astype(np.float32), np.zeros(400, dtype=np.int64), 300, "", "", "")


@pytest.fixture
def generated(monkeypatch):
    """Runs read generated images and sensors, so that tests need no data."""
    monkeypatch.setattr(sensor_problem, "sensor_network", lambda dataset: draw_roads())
    monkeypatch.setattr(image_problem, "mnist", draw_images)


def with_readings(monkeypatch, change):
    """From now on runs read other readings: a function of the times and the readings."""
    network = draw_roads()
    data = replace(network.data, values=change(network.data.times, network.data.values.copy()))
    monkeypatch.setattr(sensor_problem, "sensor_network", lambda dataset: network._replace(data=data))


def test_every_method_is_run_for_every_column_and_some_are_trained_as_tested():
    runs = plan_array_runs(["table4", "table5"], BUDGETS["standard"])
    assert {run.instance for run in runs} == {0, 1, 2}
    by_label = {}
    for run in runs:
        if run.instance == 0:
            by_label.setdefault((run.dataset, run.label), []).append((run.mechanism, run.level))
    assert by_label["mnist", "neumiss"] == [("mar", 0.5)]
    assert by_label["mnist", "stablemiss"] == [("mar", 0.1), ("mar", 0.5), ("mar", 0.9)]
    assert len(by_label["berlin", "neumiss"]) == 4
    assert ("sensors dark", 0.3) in by_label["berlin", "stablemiss_local"]
    at_50 = next(run for run in runs if (run.label, run.level) == ("stablemiss", 0.5))
    assert len(at_50.tests) == 9


def test_all_networks_share_g_and_its_training():
    for table in ARRAY_TABLES.values():
        labels = [label for label in table.methods if label in NETWORKS]
        networks = [array_settings(label, table.dataset, "2023", is_brief=False)[1] for label in labels]
        assert len(networks) >= 8
        for key in ("schedule", "learning_rate", "weight_decay"):
            assert len({network[key] for network in networks}) == 1
        # All but StableNet, which has larger batches, also make the same number of steps.
        by_label = dict(zip(labels, networks, strict=True))
        stablenet = by_label.pop("stablenet")
        [(epochs, batch_size)] = {(one["max_epochs"], one["batch_size"]) for one in by_label.values()}
        assert stablenet["max_epochs"] / stablenet["batch_size"] >= epochs / batch_size / 2
        assert len({network["architecture"].channels for network in networks}) == 1


def test_images_of_a_run_do_not_depend_on_its_label_and_higher_levels_hide_more(generated):
    problem = MNIST.problem()
    again = replace(MNIST, label="ols").problem()
    np.testing.assert_array_equal(problem.X, again.X)
    few, many = (np.isnan(problem.tests.X[test]) for test in MNIST.tests)
    assert few.mean() < 0.3 < 0.7 < many.mean()
    assert (problem.y == problem.X)[~np.isnan(problem.X)].all()
    assert problem.is_validation.sum() == 6
    assert not np.isnan(problem.tests.y).any()


def test_test_images_are_not_training_images(generated):
    problem = replace(MNIST, budget=replace(TINY, n_images=300, n_test_images=100)).problem()
    train, test = ({image.tobytes() for image in one} for one in (problem.y, problem.tests.y.astype(float)))
    assert (len(train), len(test)) == (300, 100)
    assert train.isdisjoint(test)


def test_windows_are_validated_by_whole_weeks(generated):
    run = replace(NATURAL, budget=replace(TINY, window_stride=24))
    data = draw_roads().data
    windows = SensorWindows.of(data.values, data.times, 8, 8).between("2023-01-01", "2024-01-01")
    train = windows.with_target()[::24]
    is_validation = run.problem().is_validation
    assert set(train.blocks[is_validation]).isdisjoint(train.blocks[~is_validation])
    assert 0.05 < is_validation.mean() < 0.2


def move_period(times, values):
    """Other readings in the year of the test."""
    values[times >= np.datetime64("2024-01-01")] += 100
    return values


def move_test_weeks(times, values):
    """Other readings in the held-out weeks."""
    values[week_number(times) % WEEKS_PER_CYCLE == TEST_WEEK] += 100
    return values


@pytest.mark.parametrize(("run", "change"), [(NATURAL, move_period), (IMPOSED, move_test_weeks)])
def test_readings_of_the_test_have_no_influence_on_training(generated, monkeypatch, run, change):
    """Neither as rows nor by the means by hour of the week."""
    before = run.problem()
    with_readings(monkeypatch, change)
    after = run.problem()
    np.testing.assert_array_equal(before.X, after.X)
    np.testing.assert_array_equal(before.y, after.y)
    # Every reading of the test is one of those that moved.
    np.testing.assert_allclose(after.tests.y, before.tests.y + 100)


def test_imposed_outages_hide_inputs_of_held_out_weeks_and_nothing_else(generated):
    problem = IMPOSED.problem()
    none, sensors, districts = (problem.tests.X[test] for test in OUTAGES)
    assert np.isfinite(problem.tests.y).mean() > 0.4
    natural = np.isnan(none).mean()
    for dark in (sensors, districts):
        assert np.isnan(dark).mean() > natural + 0.1
        # What is still there has the same value.
        np.testing.assert_array_equal(dark[~np.isnan(dark)], none[~np.isnan(dark)])
        # The calendar is never missing.
        assert not np.isnan(dark[:, 16:]).any()
    retrained = replace(IMPOSED, mechanism=SENSORS_DARK, level=0.3).problem()
    assert np.isnan(retrained.X).mean() > np.isnan(problem.X).mean() + 0.1
    np.testing.assert_array_equal(np.isnan(retrained.y), np.isnan(problem.y))


def test_districts_are_dark_together_and_sensors_alone(generated):
    """Some sensors have no reading in the same windows exactly if whole districts are dark."""
    problem = IMPOSED.problem()
    none, sensors, districts = (np.isnan(problem.tests.X[test][:, :16]).all(axis=2) for test in OUTAGES)
    assert not none.any()
    for is_dark, is_together in ((sensors, False), (districts, True)):
        same = (is_dark[:, :, None] == is_dark[:, None, :]).mean(axis=0) - np.eye(16)
        assert (same.max() == 1) == is_together


RUNS = pytest.mark.parametrize("run", [MNIST, NATURAL, IMPOSED], ids=["images", "periods", "outages"])


def check_record(run):
    record = execute(run)
    assert record.failure is None
    assert run.is_done_by(record)
    assert len(record.scores) == len(run.tests)
    assert all(score.error > 1 for score in record.scores)
    # The first instance keeps what pictures show.
    assert any(score.extra for score in record.scores)
    assert not any(score.extra for score in execute(replace(run, instance=1)).scores)


@RUNS
def test_a_run_gives_a_record_that_marks_it_as_done(run, generated):
    check_record(run)


@pytest.mark.slow
@RUNS
def test_a_run_on_real_data_gives_a_record_that_marks_it_as_done(run):
    try:
        run.problem()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    check_record(run)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["stablemiss", "stablenet", "mask_input_augmented", "combined"])
@pytest.mark.parametrize("run", [MNIST, NATURAL], ids=["images", "sensors"])
def test_networks_can_be_run(run, label, generated):
    """Two epochs with a few hundred rows are enough to be better than the mean."""
    if label == "combined":
        label = {"mnist": "gaussian_and_local", "berlin": "local_and_ridge"}[run.dataset]
    run = replace(run, budget=replace(TINY, n_images=300, n_test_images=100, window_stride=20))
    record = execute(replace(run, label=label))
    assert record.failure is None
    constant = execute(run)
    for score, mean in zip(record.scores, constant.scores, strict=True):
        assert score.error < 0.95 * mean.error


def records_of(errors):
    """Records of table 4 at "quick": label → for each instance the RMSE at 10, 50 and 90%."""
    return [
        Record(
            *("quick", "mnist", "mar", 0.5, instance, label),
            seed=instance,
            scores=tuple(
                Score("mar", level, error) for level, error in zip((0.1, 0.5, 0.9), rmse, strict=True)
            ),
            versions={"python": "3.11.7"},
            finished="2025-01-01T00:00:00+00:00",
            seconds=1.0,
        )
        for label, instances in errors.items()
        for instance, rmse in enumerate(instances)
    ]


def test_cells_are_means_over_instances_with_marks_and_published_errors():
    budget = replace(QUICK, n_instances=2)
    errors = {
        "stablemiss": [(10, 20, 30), (12, 20, 30)],
        "neumiss": [(13, 19, 40)] * 2,
        "ols": [(9, 9, 9)] * 2,
        "constant": [(50, 50, 50)] * 2,
    }
    comparison = compare_arrays(ARRAY_TABLES["table4"], records_of(errors), budget)
    lines = {line.label: line for line in comparison.lines if not line.is_retrained}
    first = lines["stablemiss"].cells[0]
    assert (first.rmse, first.n, first.mark) == (11, 2, "best")
    assert first.spread == pytest.approx(np.std([10, 12], ddof=1))
    assert lines["neumiss"].cells[1].mark == "best"
    assert lines["ols"].cells[0].mark == "best"  # of the methods that are not the paper's
    # The paper prints gaps of 12.33 and 23.94 to 19.27.
    assert lines["stablemiss"].published[0] == pytest.approx(31.60)
    assert lines["neumiss"].published[0] == pytest.approx(43.21)
    retrained = [line for line in comparison.lines if line.is_retrained]
    assert [line.published[0] for line in retrained] == [pytest.approx(19.27)]
    assert comparison.n_missing == 3 * (len(ARRAY_TABLES["table4"].methods) - 4) + 2


def test_only_results_of_the_same_instances_are_ranked_and_compared():
    budget = replace(QUICK, n_instances=2)
    errors = {label: [(20, 20, 20), (30, 30, 30)] for label in PAPER_METHODS}
    errors["stablemiss"] = [(10, 10, 10)]  # an easy instance only
    errors["ols"] = [(9, 9, 9)]
    comparison = compare_arrays(ARRAY_TABLES["table4"], records_of(errors), budget)
    column = comparison.column(0)
    assert sorted(cell.mark for cell in column.values())[-2:] == ["best", "second"]
    assert [label for label, cell in column.items() if cell.is_partial] == ["stablemiss"]
    assert column["stablemiss"].mark == ""
    # It has no other to be compared with.
    assert column["ols"].mark == ""
    assert comparison.common_means(0) == {**dict.fromkeys(PAPER_METHODS, 20), "stablemiss": 10, "ols": 9}


def test_the_papers_methods_come_first_and_those_trained_as_tested_last():
    for table in ARRAY_TABLES.values():
        comparison = compare_arrays(table, [], QUICK)
        labels = {group: [line.label for line in lines] for group, lines in comparison.groups.items()}
        assert labels["paper"] == list(PAPER_METHODS)
        assert labels["paper"] + labels["others"] == list(table.methods_in_rows)
        assert sorted(table.methods_in_rows) == sorted(table.methods)
        assert labels.get("retrained", []) == list(table.retrained)


def test_columns_of_one_kind_have_a_common_heading():
    headings = compare_arrays(ARRAY_TABLES["table5"], [], QUICK).headings
    assert [n for _, n in headings] == [3, 3]
    assert "other period" in headings[0][0]
    assert "outages imposed" in headings[1][0]


def test_a_page_shows_the_tables(stored_table_1):
    errors = {"stablemiss": [(10.0, 20.0, 30.0)], "neumiss": [(12.0, 22.0, 29.0)]}
    records = [*stored_table_1, *records_of(errors)]
    page = reproduction_markdown(summarise(records, QUICK))
    assert "### Table 4: MNIST under MAR" in page
    assert "| StableMiss | **10.00** (31.60) | **20.00** (31.93) | _30.00_ (74.23) |" in page


@pytest.fixture
def stored_table_1():
    return [
        Record(
            *("quick", "gaussian_mix", "mar", 0.5, 0, label),
            seed=0,
            scores=tuple(Score("mar", level, 100.0) for level in (0.1, 0.5, 0.9)),
            versions={"python": "3.11.7"},
            finished="2025-01-01T00:00:00+00:00",
            seconds=1.0,
            n_features=12,
        )
        for label in ("optimal", "ols", "constant")
    ]


def test_own_speeds_in_a_folder_can_be_run_as_table_5(tmp_path, monkeypatch):
    monkeypatch.setenv("STABLEMISS_DATA", str(tmp_path))
    run = Run(TINY, "didi", "Jan–Jun", None, 0, "ridge_on_lags", (TestSetting("Jul–Dec"),))
    sensor_network.cache_clear()
    with pytest.raises(FileNotFoundError, match=r"didi does not exist.*load_sensor_folder"):
        run.problem()
    folder = tmp_path / "didi"
    folder.mkdir()
    times = np.arange("2018-06-01", "2018-08-01", dtype="datetime64[h]")
    values = 40 + np.random.default_rng(0).normal(size=(len(times), 3)).cumsum(axis=0) / 10
    values[::7, 0] = np.nan
    np.savez(folder / "readings.npz", values=values, times=times, names=np.array(["a", "b", "c"]))
    (folder / "edges.csv").write_text("from,to\na,b\n")
    run = replace(run, budget=replace(TINY, window_stride=8))
    record = execute(run)
    assert record.failure is None
    assert run.problem().graph.n_nodes == 3
    comparison = compare_arrays(ARRAY_TABLES["table5_didi"], [record], TINY)
    lines = {line.label: line for line in comparison.lines}
    assert lines["ridge_on_lags"].cells[0].rmse == record.scores[0].error
    assert lines["stablemiss"].published == (11.84,)
    # Without edges, sensors are connected with the nearest ones.
    (folder / "edges.csv").unlink()
    sensor_network.cache_clear()
    assert run.problem().graph is None
    (folder / "coordinates.csv").write_text("name,lat,lon\na,30.6,104.0\nb,30.6,104.1\nc,30.7,104.0\n")
    sensor_network.cache_clear()
    assert run.problem().graph == Graph.nearest([(30.6, 104.0), (30.6, 104.1), (30.7, 104.0)], 2, "abc")
    # Half hours would be read as hours.
    half_hours = np.arange("2018-06-01", "2018-07-01T12", np.timedelta64(30, "m"), dtype="datetime64[m]")
    np.savez(folder / "readings.npz", values=values[: len(half_hours)], times=half_hours, names=list("abc"))
    sensor_network.cache_clear()
    with pytest.raises(ValueError, match=r"time step of one hour.*got a step of 0:30:00"):
        run.problem()
    sensor_network.cache_clear()


def test_data_that_are_not_public_are_not_part_of_all_tables():
    runs = Reproduction(["all"], "quick").runs
    assert {run.dataset for run in runs if run.is_array} == {"mnist", "berlin"}
    assert {run.dataset for run in Reproduction(["table5_didi"], "quick").runs} == {"didi"}


def test_the_claim_about_images_is_judged_by_the_shifted_columns():
    budget = replace(QUICK, n_instances=3)
    errors = {label: [(20, 20, 20)] * 3 for label in PAPER_METHODS}
    errors["stablemiss"] = [(10, 30, 15), (10, 30, 16), (10, 30, 17)]
    (claim,) = judge_claims([], [compare_arrays(ARRAY_TABLES["table4"], records_of(errors), budget)])
    assert claim.verdict == "held"
    assert (claim.measured.n_first, claim.measured.n) == (2, 2)
    assert claim.measured.mean == pytest.approx((-0.5 - 0.2) / 2)
    assert claim.published.best_other == "stablenet"
    del errors["neumiss"]
    (claim,) = judge_claims([], [compare_arrays(ARRAY_TABLES["table4"], records_of(errors), budget)])
    assert claim.verdict == "not enough records"


def test_results_of_array_tables_are_counted():
    comparison = compare_arrays(ARRAY_TABLES["table4"], records_of({"ols": [(9, 9, 9)]}), QUICK)
    assert comparison.n_results == 3
    # Two of three columns have a row that was trained as tested.
    assert comparison.n_planned == 3 * len(comparison.table.methods) + 2


def test_at_quick_networks_have_few_epochs():
    for label in ("stablemiss", "stablenet", "stablemiss_local"):
        assert replace(MNIST, label=label).method().max_epochs == 2
    assert replace(MNIST, label="gaussian_and_local").method().network.max_epochs == 2
    assert replace(MNIST, label="miwae").method().max_epochs == METHODS["miwae"].brief["max_epochs"]
    assert replace(MNIST, label="dwr").method().ridge == RIDGE["mnist"]


def test_the_graph_reaches_every_network():
    graph = Graph.from_edges("abc", [("a", "b")])
    for label in ("stablemiss", "local_and_ridge"):
        parameters = with_graph(replace(NATURAL, label=label).method(), graph).get_params()
        prefix = "network__" if label == "local_and_ridge" else ""
        assert parameters[f"{prefix}architecture"].graph is graph
    assert with_graph(replace(NATURAL, label="ridge_on_lags").method(), graph).graph is graph
    assert not hasattr(with_graph(replace(NATURAL, label="dwr").method(), graph), "graph")


def test_images_and_sensors_are_not_run_at_budgets_of_tables():
    assert not any(run.is_array for run in Reproduction(["all"], "as_published").runs)
    with pytest.raises(ValueError, match=r"table4 has no budget paper; choose one of quick, standard"):
        Reproduction(["table4"], "paper")


@pytest.mark.parametrize("step", [1, 4, 12])
def test_the_curve_through_an_outage_is_that_of_the_readings(step):
    """Perfect predictions agree with the readings, and the dark hours are those that were hidden."""
    times = np.arange("2024-01-01", "2024-01-29", dtype="datetime64[h]")
    values = np.random.default_rng(0).normal(40, 5, size=(len(times), 3))
    is_dark = np.zeros(values.shape, dtype=bool)
    is_dark[200:290, 1] = True
    windows = SensorWindows.of(values, times, 8, 8).with_inputs(np.where(is_dark, np.nan, values))
    usual = windows.hour_of_week_mean()
    shown = windows.deseasonalised(usual)[::step]
    outage = shown_outage(shown, usual, shown.future(), ["a", "b", "c"], step)
    assert outage.sensor == "b"
    hours = np.flatnonzero(times == np.datetime64(outage.start))[0] + np.arange(len(outage.observed))
    np.testing.assert_allclose(outage.observed, values[hours, 1])
    is_predicted = ~np.isnan(outage.predicted)
    np.testing.assert_allclose(outage.predicted[is_predicted], values[hours, 1][is_predicted])
    assert is_predicted.all() == (step <= 8)
    np.testing.assert_array_equal(outage.is_dark, is_dark[hours, 1])
    assert shown_outage(shown[:1], usual, shown.future()[:1], ["a", "b", "c"], step) is None
