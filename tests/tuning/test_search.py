import numpy as np
import pytest

from stablemiss.tuning import Choice, Range
from stablemiss.tuning.journal import quiet
from stablemiss.tuning.search import Search

SPACE = {
    "rate": Range(1e-4, 1e-1, log=True),
    "layers": Range(1, 3),
    "width": Choice(None, 64, (32, 32)),
    "mix": Range(0.0, 1.0),
}
GIVEN = {"rate": 1e-3, "layers": 2, "width": (32, 32), "mix": 0.5}


@pytest.fixture(autouse=True)
def silence():
    with quiet():
        yield


def loss(params):
    return abs(np.log10(params["rate"]) + 2) + abs(params["mix"] - 0.2) + (params["width"] != 64)


def run(search, n):
    for _ in range(n):
        trial, params = search.ask()
        search.tell(trial, loss(params))
    return search.trials()


@pytest.mark.parametrize("seed", range(3))
def test_values_lie_in_the_space_are_of_its_kind_and_come_back_from_the_file(tmp_path, seed):
    path = tmp_path / "study.journal"
    trials = run(Search(path, {}, SPACE, GIVEN, seed), 15)
    assert trials[0].params == GIVEN
    for trial in trials:
        assert trial.params.keys() == SPACE.keys()
        assert all(value in SPACE[name] for name, value in trial.params.items())
        assert type(trial.params["layers"]) is int
        assert trial.loss == pytest.approx(loss(trial.params))
        assert trial.seconds >= 0
    assert Search(path, {}, SPACE, GIVEN, seed).trials() == trials
    assert len({str(trial.params) for trial in trials}) == 15


@pytest.mark.parametrize("seed", range(5))
def test_it_learns_from_what_came_out(seed):
    trials = run(Search(None, {}, SPACE, GIVEN, seed), 50)
    early, late = (np.median([trial.loss for trial in part]) for part in (trials[1:11], trials[-20:]))
    assert late < early


def test_a_trial_that_was_killed_is_not_counted_and_the_one_given_is_tried_again(tmp_path):
    path = tmp_path / "study.journal"
    killed = Search(path, {}, SPACE, GIVEN, 0)
    _, params = killed.ask()
    assert params == GIVEN
    search = Search(path, {}, SPACE, GIVEN, 0)
    assert search.n_ended() == 0
    trials = run(search, 2)
    assert [trial.number for trial in trials] == [1, 2]
    assert [trial.is_given for trial in trials] == [True, False]


def test_two_that_ask_at_once_get_different_trials(tmp_path):
    path = tmp_path / "study.journal"
    searches = [Search(path, {}, SPACE, GIVEN, 0) for _ in range(2)]
    asked = [search.ask() for search in searches * 3]
    assert sorted(trial.number for trial, _ in asked) == list(range(6))
    assert sum(params == GIVEN for _, params in asked) == 1
    assert len({str(params) for _, params in asked}) == 6


def test_failures_are_kept_and_losses_that_are_no_numbers_are_failures():
    search = Search(None, {}, SPACE, GIVEN, 0)
    for number, (value, why) in enumerate([(None, "no memory"), (np.inf, None), (np.nan, None), (1.0, None)]):
        trial, _ = search.ask()
        assert trial.number == number
        search.tell(trial, value, why)
    assert [trial.failure for trial in search.trials()] == [
        "no memory",
        "the loss is inf",
        "the loss is nan",
        None,
    ]
    assert search.n_ended() == 4
    assert search.least_loss() == 1.0


def test_a_trial_with_the_values_of_an_earlier_one_ends_like_it():
    search = Search(None, {}, {"layers": Range(1, 2)}, {"layers": 2}, 0)
    outcome = {2: 0.25, 1: 0.75}
    n_new = 0
    for _ in range(8):
        trial, params = search.ask()
        if not search.end_like_twin(trial):
            n_new += 1
            search.tell(trial, outcome[params["layers"]])
    assert n_new == 2
    assert all(trial.loss == outcome[trial.params["layers"]] for trial in search.trials())
    assert len(search.trials()) == 8
