import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

from stablemiss import MissingClassifier, MissingRegressor, StableMissRegressor
from stablemiss.methods import OLS, StableNet
from stablemiss.missingness import MCARIndependent
from stablemiss.progress import NullProgress
from stablemiss.results import Store
from stablemiss.tuning import Choice, Range, tune

RIDGE = {"ridge": Range(1e-3, 1e3, log=True)}
# Run in a separate process; slow enough to be interrupted during a trial.
SLOW = """
import sys, time
import numpy as np
from stablemiss import MissingRegressor
from stablemiss.methods import OLS
from stablemiss.tuning import Range, tune

fit = OLS.fit
def slow(*arguments):
    time.sleep(0.15)
    return fit(*arguments)
OLS.fit = slow
with np.load("table.npz") as table:
    X, y = table["X"], table["y"]
space = {"ridge": Range(1e-3, 1e3, log=True)}
tune(MissingRegressor("ols"), X, y, n_trials=int(sys.argv[1]), space=space, study="study.journal")
"""
# The process dies in each fit with height 2, and in the first fit with any other height.
FRAGILE = """
import json, os
from dataclasses import asdict
from pathlib import Path
import numpy as np
from stablemiss import MissingRegressor
from stablemiss.methods import Method
from stablemiss.methods.constant import ConstantPredictor
from stablemiss.tuning import Choice, tune

class Fragile(Method):
    name = "fragile"
    predictor = ConstantPredictor

    def __init__(self, height=0.0):
        self.height = height

    def fit(self, train, valid, task, rng, progress):
        n_before = len(list(Path().glob(f"{self.height}-*")))
        Path(f"{self.height}-{n_before}").touch()
        if self.height == 2.0 or n_before == 0:
            os._exit(1)
        return ConstantPredictor(np.full(task.d_output, self.height))

X = np.arange(20.0)[:, None]
space = {"height": Choice(2.0)}
tuned = tune(MissingRegressor(Fragile()), X, X[:, 0], n_trials=2, n_jobs=2, space=space)
print(json.dumps([asdict(trial) for trial in tuned.trials]))
"""


def losses(tuned):
    return [trial.loss for trial in tuned.trials]


def n_complete(path):
    """Number of trials with a loss, read from the file without optuna: lines that set a state to 1."""
    lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sum(line["op_code"] == 6 and line["state"] == 1 for line in lines)


@pytest.fixture
def start_process(table, tmp_path):
    """Starts another process on the same study and waits until it has finished `n_first` trials."""
    np.savez(tmp_path / "table.npz", X=table[0], y=table[1])
    started = []

    def start(n_trials, n_first):
        process = subprocess.Popen([sys.executable, "-c", SLOW, str(n_trials)], cwd=tmp_path)
        started.append(process)
        path = tmp_path / "study.journal"
        while not path.exists() or n_complete(path) < n_first:
            assert process.poll() is None
            time.sleep(0.01)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.parametrize("seed", range(3))
def test_the_first_trial_is_the_initial_estimator_and_the_result_is_never_worse(table, constant_height, seed):
    tuned = tune(MissingRegressor(constant_height(height=0.3)), *table, n_trials=12, random_state=seed)
    first = tuned.trials[0]
    assert first.params == {"height": 0.3, "paint": "white"}
    assert [trial.is_initial for trial in tuned.trials] == [True] + [False] * 11
    assert tuned.loss == min(losses(tuned)) <= first.loss
    assert abs(tuned.params["height"]) < 0.8


def test_initial_values_may_lie_outside_the_space(table, constant_height):
    tuned = tune(MissingRegressor(constant_height(height=0.0, paint="none")), *table, n_trials=3)
    assert tuned.trials[0].params == {"height": 0.0, "paint": "none"}
    assert all(trial.params["paint"] in ("white", (1, 2)) for trial in tuned.trials[1:])


def test_classes_several_outputs_and_categorical_columns_work(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 0, "here", None))
    labels = np.where(y > 1, "high", "low")
    classes = tune(
        MissingClassifier("ols"), frame, labels, n_trials=3, space=RIDGE, test_mechanism=MCARIndependent(0.5)
    )
    assert 0 < classes.loss < 0.7
    assert classes.estimator().fit(frame, labels).score(frame, labels) > 0.8
    several = tune(MissingRegressor("ols"), frame, np.column_stack([y, -y]), n_trials=2, space=RIDGE)
    assert 0 < several.loss < 1.4


def test_a_test_mechanism_increases_the_loss(table):
    plain, hidden = (
        tune(MissingRegressor("ols"), *table, n_trials=1, space=RIDGE, test_mechanism=mechanism)
        for mechanism in (None, MCARIndependent(0.8))
    )
    assert hidden.loss > 1.2 * plain.loss


def test_rows_of_weight_zero_are_ignored(table):
    X, y = table
    weight = np.where(np.arange(60) < 40, 2.0, 0.0)
    weighted = tune(MissingRegressor("ols"), X, y, n_trials=2, space=RIDGE, sample_weight=weight)
    fewer = tune(MissingRegressor("ols"), X[:40], y[:40], n_trials=2, space=RIDGE)
    np.testing.assert_allclose(losses(weighted), losses(fewer))


@pytest.mark.parametrize("method", ["ols", OLS(inputs="mask")])
def test_the_tuned_estimator_differs_from_the_initial_one_only_in_the_best_hyper_parameters(table, method):
    params = {"inputs": "mask"} if method == "ols" else None
    initial = MissingRegressor(method, params=params, max_one_hot=3, random_state=7)
    before = repr(initial)
    tuned = tune(initial, *table, n_trials=4, space=RIDGE)
    best = min(tuned.trials, key=lambda trial: trial.loss)
    estimator = tuned.estimator()
    assert estimator.max_one_hot == 3
    assert estimator.random_state == 7
    assert estimator.fit(*table).method_.get_params() == {"inputs": "mask", "ridge": best.params["ridge"]}
    by_name = MissingRegressor("ols", params=tuned.params)
    assert by_name.fit(*table).method_.get_params() == estimator.method_.get_params()
    assert repr(initial) == before


def test_the_same_seed_gives_the_same_trials_and_another_seed_different_ones(table):
    first, second, different = (
        tune(MissingRegressor("ols"), *table, n_trials=14, space=RIDGE, random_state=seed)
        for seed in (3, 3, 4)
    )
    assert [trial.params for trial in first.trials] == [trial.params for trial in second.trials]
    assert losses(first) == losses(second)
    assert first.trials[1].params != different.trials[1].params


def test_the_global_random_states_are_unchanged(table):
    def states():
        return str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist()  # noqa: NPY002

    before = states()
    tune(MissingRegressor("ols"), *table, n_trials=12, space=RIDGE)
    assert states() == before


def test_nothing_is_printed_on_standard_error(table, capfd, tmp_path):
    tune(MissingRegressor("ols"), *table, n_trials=2, space=RIDGE, study=tmp_path / "study.journal")
    assert capfd.readouterr().err == ""


def test_a_resumed_search_equals_an_uninterrupted_one_and_repeats_no_trial(table, constant_height, tmp_path):
    path = tmp_path / "study.journal"
    for n_trials in (2, 5, 5, 13):
        resumed = tune(MissingRegressor(constant_height()), *table, n_trials=n_trials, study=path)
        assert len(resumed.trials) == n_trials
    assert len(constant_height.heights) == 13
    uninterrupted = tune(MissingRegressor(constant_height()), *table, n_trials=13)
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in uninterrupted.trials]
    assert resumed.params == uninterrupted.params


def test_trials_become_records_that_a_store_keeps(table, tmp_path):
    tuned = tune(MissingRegressor("ols"), *table, n_trials=3, space=RIDGE, random_state=4)
    records = tuned.records("toy")
    assert [record.scores[0].error for record in records] == [trial.loss for trial in tuned.trials]
    assert [record.config["ridge"] for record in records] == [trial.params["ridge"] for trial in tuned.trials]
    assert {(record.label, record.dataset, record.seed) for record in records} == {("ols", "toy", 4)}
    assert [record.finished for record in records] == [trial.finished for trial in tuned.trials]
    assert all(record.finished and record.settings["method"] == "ols" for record in records)
    store = Store(tmp_path / "trials.jsonl")
    with store.appending() as append:
        for record in records:
            append(record)
    assert store.records() == records


def test_equal_hyper_parameters_are_fitted_once(table, constant_height):
    space = {"height": Choice(0.5, 1.0)}
    tuned = tune(MissingRegressor(constant_height()), *table, n_trials=20, space=space)
    assert len(tuned.trials) == 20
    assert sorted(constant_height.heights) == [0.5, 1.0]
    assert tuned.params["height"] == 0.5


@pytest.mark.slow
def test_a_search_can_be_continued_after_its_process_was_killed(table, start_process, tmp_path):
    """Only the trial that was running is lost."""
    process = start_process(n_trials=1000, n_first=3)
    # Wait until the next trial is running.
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    path = tmp_path / "study.journal"
    n_before = n_complete(path)
    before = path.read_bytes()
    tuned = tune(MissingRegressor("ols"), *table, n_trials=n_before + 4, space=RIDGE, study=path)
    assert len(tuned.trials) == n_complete(path) == n_before + 4
    assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert sum(trial.is_initial for trial in tuned.trials) == 1


@pytest.mark.slow
def test_two_processes_share_one_study(table, start_process, tmp_path):
    process = start_process(n_trials=30, n_first=2)
    path = tmp_path / "study.journal"
    tuned = tune(MissingRegressor("ols"), *table, n_trials=30, space=RIDGE, study=path)
    assert process.wait() == 0
    # The other process may still have been running a trial when the last one finished here.
    assert 30 <= n_complete(path) <= 31
    assert len(tuned.trials) in (30, 31)
    writers = {json.loads(line)["worker_id"] for line in path.read_text().splitlines()}
    assert len(writers) == 2
    ridges = [trial.params["ridge"] for trial in tuned.trials]
    assert len(set(ridges)) == len(ridges)


@pytest.mark.slow
def test_trials_run_in_parallel_processes(table):
    space = {"ridge": Choice(1e-3, 1.0, 1e3)}
    tuned = tune(MissingRegressor("ols"), *table, n_trials=3, space=space, n_jobs=2)
    alone = tune(MissingRegressor("ols"), *table, n_trials=1, space=space)
    assert len(tuned.trials) == 3
    assert tuned.trials[0].loss == alone.loss


@pytest.mark.slow
def test_a_trial_whose_process_died_is_retried_once(tmp_path):
    done = subprocess.run([sys.executable, "-c", FRAGILE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    initial, second = json.loads(done.stdout)
    assert initial["is_initial"]
    assert initial["loss"] is not None
    assert not second["is_initial"]
    assert second["failure"].startswith("TerminatedWorkerError")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.0-0", "0.0-1", "2.0-0", "2.0-1"]


def test_a_trial_that_raises_is_recorded_and_the_search_continues(table, constant_height, tmp_path):
    path = tmp_path / "study.journal"
    for _ in range(2):
        tuned = tune(
            MissingRegressor(constant_height(height=1.9, breaks_at=0.5)), *table, n_trials=12, study=path
        )
    failed = [trial for trial in tuned.trials if trial.loss is None]
    assert 0 < len(failed) < 12
    assert failed[0].failure == "ArithmeticError: failure at height 1.9"
    assert tuned.params["height"] < 0.5
    assert len(constant_height.heights) == 12


def test_a_loss_that_is_not_finite_is_a_failure(table, constant_height):
    tuned = tune(MissingRegressor(constant_height(height=np.nan)), *table, n_trials=2)
    assert tuned.trials[0].failure == "the loss is nan"


def test_if_all_trials_fail_the_error_contains_the_first_reason(table, constant_height):
    with pytest.raises(
        ValueError,
        match=r"None of 3 trials of 'constant_height'.*first .*ArithmeticError: failure at height 1\.0",
    ):
        tune(MissingRegressor(constant_height(breaks_at=-9)), *table, n_trials=3)


def test_no_trial_starts_after_the_timeout(table, constant_height, tmp_path):
    with pytest.raises(
        ValueError, match="None of 0 trials of 'constant_height' succeeded before the timeout"
    ):
        tune(MissingRegressor(constant_height()), *table, timeout=0)
    path = tmp_path / "study.journal"
    tune(MissingRegressor(constant_height()), *table, n_trials=2, study=path)
    assert len(tune(MissingRegressor(constant_height()), *table, study=path, timeout=0).trials) == 2


def test_progress_reports_the_number_of_finished_trials(table, constant_height):
    calls = []

    class Recorder(NullProgress):
        def start(self, what, total=None):
            calls.append((what, total))

        def update(self, done, note=""):
            calls.append(done)

        def finish(self):
            calls.append("end")

    tune(MissingRegressor(constant_height()), *table, n_trials=3, progress=Recorder())
    assert calls == [("tuning constant_height", 3), 1, 2, 3, "end"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"estimator": MissingRegressor("boosting"), "space": None},
            "method ols; got boosting",
        ),
        (
            {"estimator": MissingClassifier("ols"), "y": np.arange(60) % 2},
            "estimator MissingRegressor; got MissingClassifier",
        ),
        ({"estimator": MissingRegressor("ols", max_one_hot=2)}, "fixed parameters {"),
        ({"estimator": MissingRegressor("ols", date_features=False)}, "fixed parameters {"),
        ({"estimator": MissingRegressor("ols", params={"ridge": 5.0})}, "first trial {'ridge': "),
        ({"space": {"ridge": Range(1.0, 2.0)}}, "space {'ridge': Range"),
        ({"random_state": 1}, "random_state 0; got 1"),
        ({"holdout_fraction": 0.3}, "holdout_fraction 0.2; got 0.3"),
        (
            {"test_mechanism": MCARIndependent(0.5)},
            "fingerprint of table, target, weights and test mechanism ",
        ),
        ({"y": np.arange(60.0)}, "fingerprint of table, target, weights and test mechanism "),
        (
            {"sample_weight": np.arange(1.0, 61.0)},
            "fingerprint of table, target, weights and test mechanism ",
        ),
    ],
)
def test_the_file_of_another_search_raises_and_is_unchanged(table, tmp_path, change, message):
    path = tmp_path / "study.journal"
    arguments = dict(zip("Xy", table, strict=True)) | {"space": RIDGE, "study": path, "n_trials": 1}
    tune(MissingRegressor("ols"), **arguments)
    before = path.read_bytes()
    arguments = {"estimator": MissingRegressor("ols"), **arguments, **change}
    with pytest.raises(ValueError, match=re.escape(f"belongs to another search, with {message}")):
        tune(**arguments)
    assert path.read_bytes() == before


def test_order_of_names_and_lists_instead_of_tuples_do_not_matter(table, constant_height, tmp_path):
    """JSON has lists but no tuples."""
    path = tmp_path / "study.journal"
    space = {"height": Range(-2.0, 2.0), "paint": Choice((1, 2), "white")}
    first = tune(MissingRegressor(constant_height(paint=(1, 2))), *table, n_trials=4, space=space, study=path)
    same_space = {"paint": Choice([1, 2], "white"), "height": Range(-2.0, 2.0)}
    continued = tune(
        MissingRegressor(constant_height(paint=[1, 2])), *table, n_trials=4, space=same_space, study=path
    )
    assert [trial.params for trial in continued.trials] == [trial.params for trial in first.trials]
    new = tune(MissingRegressor(constant_height(paint=[1, 2])), *table, n_trials=4, space=same_space)
    assert [trial.params for trial in new.trials] == [trial.params for trial in first.trials]
    fixed = {"learning_rate": Range(1e-3, 1e-2)}
    path = tmp_path / "fixed.journal"
    for hidden in ((4,), [4]):
        method = StableNet(hidden, inner_steps=0, max_epochs=1)
        tuned = tune(MissingRegressor(method), *table, n_trials=1, space=fixed, study=path)
        assert len(tuned.trials) == 1


def test_invalid_arguments_raise(table):
    X, y = table
    ols = MissingRegressor("ols")
    with pytest.raises(
        TypeError, match=r"must be a MissingRegressor or a MissingClassifier.*got StableMissRegressor"
    ):
        tune(StableMissRegressor(), X, y)
    with pytest.raises(ValueError, match="'ols' has no default search space"):
        tune(ols, X, y)
    with pytest.raises(
        ValueError, match="space contains 'rigde', but the hyper-parameters of 'ols' are: 'inputs', 'ridge'"
    ):
        tune(ols, X, y, space={"rigde": Range(0, 1)})
    with pytest.raises(ValueError, match=r"space\['ridge'\] must be a Range or a Choice.*got \[0, 1\]"):
        tune(ols, X, y, space={"ridge": [0, 1]})
    for name, value in {"n_trials": 0, "random_state": None, "holdout_fraction": 1.0, "n_jobs": 0}.items():
        with pytest.raises(ValueError, match=f"{name} must .*; got {value!r}"):
            tune(ols, X, y, space=RIDGE, **{name: value})
    with pytest.raises(ValueError, match=r"at least 3 rows.*got 2"):
        tune(ols, X[:2], y[:2], space=RIDGE)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        tune(ols, X, y, space=RIDGE, study="no/study.journal")


def test_arrays_are_refused_with_what_to_use():
    images = np.zeros((10, 4, 4))
    for X in (images, images.reshape(10, -1)):
        with pytest.raises(ValueError, match=r"^tune reads tables.*GridSearchCV.*default score"):
            tune(MissingRegressor("stablemiss"), X, images)
