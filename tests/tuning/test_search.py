import numpy as np
import pytest

from stablemiss.tuning import Choice, Range
from stablemiss.tuning.journal import quiet_optuna
from stablemiss.tuning.search import Search

SPACE = {
    "rate": Range(1e-4, 1e-1, log=True),
    "layers": Range(1, 3),
    "width": Choice(None, 64, (32, 32)),
    "mix": Range(0.0, 1.0),
}
INITIAL = {"rate": 1e-3, "layers": 2, "width": (32, 32), "mix": 0.5}


@pytest.fixture(autouse=True)
def _quiet():
    with quiet_optuna():
        yield


def loss(params):
    return abs(np.log10(params["rate"]) + 2) + abs(params["mix"] - 0.2) + (params["width"] != 64)


def run(search, n):
    for _ in range(n):
        trial, params = search.ask()
        search.tell(trial, loss(params))
    return search.trials()


@pytest.mark.parametrize("seed", range(3))
def test_values_lie_in_the_space_and_are_stored_in_the_file(tmp_path, seed):
    path = tmp_path / "study.journal"
    trials = run(Search(path, {}, SPACE, INITIAL, seed), 15)
    assert trials[0].params == INITIAL
    for trial in trials:
        assert trial.params.keys() == SPACE.keys()
        assert all(value in SPACE[name] for name, value in trial.params.items())
        assert type(trial.params["layers"]) is int
        assert trial.loss == pytest.approx(loss(trial.params))
        assert trial.seconds >= 0
    assert Search(path, {}, SPACE, INITIAL, seed).trials() == trials
    assert len({str(trial.params) for trial in trials}) == 15


@pytest.mark.parametrize("seed", range(5))
def test_later_trials_are_better_than_early_ones(seed):
    trials = run(Search(None, {}, SPACE, INITIAL, seed), 50)
    early, late = (np.median([trial.loss for trial in subset]) for subset in (trials[1:11], trials[-20:]))
    assert late < early


def test_a_killed_trial_does_not_count_and_the_initial_one_is_repeated(tmp_path):
    path = tmp_path / "study.journal"
    killed = Search(path, {}, SPACE, INITIAL, 0)
    _, params = killed.ask()
    assert params == INITIAL
    search = Search(path, {}, SPACE, INITIAL, 0)
    assert search.n_finished() == 0
    trials = run(search, 2)
    assert [trial.number for trial in trials] == [1, 2]
    assert [trial.is_initial for trial in trials] == [True, False]


def test_parallel_searches_get_different_trials(tmp_path):
    path = tmp_path / "study.journal"
    searches = [Search(path, {}, SPACE, INITIAL, 0) for _ in range(2)]
    asked = [search.ask() for search in searches * 3]
    assert sorted(trial.number for trial, _ in asked) == list(range(6))
    assert sum(params == INITIAL for _, params in asked) == 1
    assert len({str(params) for _, params in asked}) == 6


def test_failures_are_recorded_and_a_loss_that_is_not_finite_is_a_failure():
    search = Search(None, {}, SPACE, INITIAL, 0)
    results = [(None, "no memory"), (np.inf, None), (np.nan, None), (1.0, None)]
    for number, (value, failure) in enumerate(results):
        trial, _ = search.ask()
        assert trial.number == number
        search.tell(trial, value, failure)
    assert [trial.failure for trial in search.trials()] == [
        "no memory",
        "the loss is inf",
        "the loss is nan",
        None,
    ]
    assert search.n_finished() == 4
    assert search.best_loss() == 1.0


def test_a_trial_with_the_same_values_as_an_earlier_one_reuses_its_loss():
    search = Search(None, {}, {"layers": Range(1, 2)}, {"layers": 2}, 0)
    outcome = {2: 0.25, 1: 0.75}
    n_new = 0
    for _ in range(8):
        trial, params = search.ask()
        if not search.reuse_loss(trial):
            n_new += 1
            search.tell(trial, outcome[params["layers"]])
    assert n_new == 2
    assert all(trial.loss == outcome[trial.params["layers"]] for trial in search.trials())
    assert len(search.trials()) == 8
