import json

import optuna
import pytest
from optuna.samplers import RandomSampler
from optuna.storages.journal import JournalFileBackend, JournalStorage

from stablemiss.tuning.journal import RepairingLock, open_study, quiet_optuna

SETTINGS = {"method": "ols"}


@pytest.fixture(autouse=True)
def _quiet():
    with quiet_optuna():
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.journal"


def run_trials(path, n_trials=2):
    study = open_study(path, SETTINGS, RandomSampler(seed=0))
    for _ in range(n_trials):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0, 1))
    return study


def test_without_a_path_no_file_is_written(tmp_path):
    run_trials(None)
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_loaded_from_its_file_and_continued(path):
    values = [trial.value for trial in run_trials(path).trials]
    continued = run_trials(path)
    assert [trial.value for trial in continued.trials][:2] == values
    assert len(continued.trials) == 4


def test_opening_a_study_does_not_change_its_file(path):
    run_trials(path)
    before = path.read_bytes()
    run_trials(path, n_trials=0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("n_bytes", [1, 20, 60])
def test_an_incomplete_line_of_a_killed_process_is_removed(path, n_bytes):
    run_trials(path)
    complete = path.read_bytes()
    path.write_bytes(complete + complete.splitlines()[-1][:n_bytes])
    study = run_trials(path, n_trials=1)
    assert len(study.trials) == 3
    assert path.read_bytes().startswith(complete)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_an_incomplete_line_is_removed_while_other_processes_use_the_study(path):
    first, second = run_trials(path, n_trials=1), run_trials(path, n_trials=1)
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    for study in (first, second, first):
        study.tell(study.ask(), 0.5)
    assert len(first.trials) == len(second.trials) == 5


def test_a_study_can_be_created_in_an_empty_file(path):
    path.touch()
    assert len(run_trials(path).trials) == 2


def test_the_lock_is_released_after_writing(path):
    run_trials(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    lock = RepairingLock(str(path))
    assert lock.acquire()
    lock.release()


@pytest.mark.parametrize(
    "content",
    ["x,y\n1,2\n", '{"ridge": 0.1}', '{"ridge": 0.1}\n', "[1]\n", "3\n", '{"op_code": 0', "\x00\xff"],
)
def test_a_file_that_is_not_a_study_raises_and_is_unchanged(path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match=r"study\.journal is not a study created by tune"):
        run_trials(path)
    assert path.read_text() == content


def test_an_optuna_study_not_created_by_tune_raises_and_is_unchanged(path):
    optuna.create_study(storage=JournalStorage(JournalFileBackend(str(path))))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"study\.journal is an optuna study that was not created by tune"):
        run_trials(path)
    assert path.read_bytes() == before


def test_of_two_different_searches_started_at_the_same_time_the_second_to_write_raises(path, monkeypatch):
    """Both have found a file without settings, and the other one writes first."""
    write = optuna.Study.set_user_attr
    other_studies = []

    def write_after_another(study, key, value):
        monkeypatch.setattr(optuna.Study, "set_user_attr", write)
        other_studies.append(open_study(path, {"method": "boosting"}, RandomSampler(seed=0)))
        write(study, key, value)

    monkeypatch.setattr(optuna.Study, "set_user_attr", write_after_another)
    with pytest.raises(ValueError, match="method boosting; got ols"):
        open_study(path, SETTINGS, RandomSampler(seed=0))
    reopened = open_study(path, {"method": "boosting"}, RandomSampler(seed=0))
    assert len(other_studies) == 1
    assert reopened.study_name == other_studies[0].study_name
    with pytest.raises(ValueError, match="belongs to another search"):
        open_study(path, SETTINGS, RandomSampler(seed=0))


def test_two_processes_that_start_the_same_search_at_the_same_time_share_it(path, monkeypatch):
    write = optuna.Study.set_user_attr

    def write_after_another(study, key, value):
        monkeypatch.setattr(optuna.Study, "set_user_attr", write)
        run_trials(path, n_trials=1)
        write(study, key, value)

    monkeypatch.setattr(optuna.Study, "set_user_attr", write_after_another)
    assert len(run_trials(path, n_trials=1).trials) == 2


def test_the_verbosity_of_optuna_is_restored():
    before = optuna.logging.get_verbosity()
    with pytest.raises(KeyError), quiet_optuna():
        raise KeyError
    assert optuna.logging.get_verbosity() == before
