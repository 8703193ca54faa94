import json

import optuna
import pytest
from optuna.samplers import RandomSampler
from optuna.storages.journal import JournalFileBackend, JournalStorage

from stablemiss.tuning.journal import MendingLock, open_study, quiet

ABOUT = {"method": "ols"}


@pytest.fixture(autouse=True)
def silence():
    with quiet():
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.journal"


def begin(path, n_trials=2):
    study = open_study(path, ABOUT, RandomSampler(seed=0))
    for _ in range(n_trials):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0, 1))
    return study


def test_without_a_file_nothing_is_kept(tmp_path):
    begin(None)
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_read_back_from_its_file_and_goes_on(path):
    values = [trial.value for trial in begin(path).trials]
    again = begin(path)
    assert [trial.value for trial in again.trials][:2] == values
    assert len(again.trials) == 4


def test_to_open_a_study_writes_nothing_to_its_file(path):
    begin(path)
    before = path.read_bytes()
    begin(path, n_trials=0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("n_bytes", [1, 20, 60])
def test_half_a_line_that_a_killed_process_left_is_cut_off(path, n_bytes):
    begin(path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:n_bytes])
    study = begin(path, n_trials=1)
    assert len(study.trials) == 3
    assert path.read_bytes().startswith(whole)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_half_a_line_is_cut_off_also_while_others_work(path):
    first, second = begin(path, n_trials=1), begin(path, n_trials=1)
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    for study in (first, second, first):
        study.tell(study.ask(), 0.5)
    assert len(first.trials) == len(second.trials) == 5


def test_an_empty_file_is_begun(path):
    path.touch()
    assert len(begin(path).trials) == 2


def test_the_lock_is_gone_when_the_work_is_done(path):
    begin(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    lock = MendingLock(str(path))
    assert lock.acquire()
    lock.release()


@pytest.mark.parametrize(
    "content",
    ["x,y\n1,2\n", '{"ridge": 0.1}', '{"ridge": 0.1}\n', "[1]\n", "3\n", '{"op_code": 0', "\x00\xff"],
)
def test_a_file_of_another_kind_is_refused_and_stays_as_it_was(path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match=r"study\.journal is no study that tune began; give another"):
        begin(path)
    assert path.read_text() == content


def test_a_study_of_someone_elses_is_refused_and_stays_as_it_was(path):
    optuna.create_study(storage=JournalStorage(JournalFileBackend(str(path))))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"study\.journal holds a study of optuna's that tune did not begin"):
        begin(path)
    assert path.read_bytes() == before


def test_of_two_searches_begun_in_the_same_moment_the_second_to_write_is_refused(path, monkeypatch):
    """Both found the file without a word about what it is for; the other one was quicker."""
    write = optuna.Study.set_user_attr
    others = []

    def after_another(study, key, value):
        monkeypatch.setattr(optuna.Study, "set_user_attr", write)
        others.append(open_study(path, {"method": "boosting"}, RandomSampler(seed=0)))
        write(study, key, value)

    monkeypatch.setattr(optuna.Study, "set_user_attr", after_another)
    with pytest.raises(ValueError, match="its method is boosting, but here it is ols"):
        open_study(path, ABOUT, RandomSampler(seed=0))
    again = open_study(path, {"method": "boosting"}, RandomSampler(seed=0))
    assert len(others) == 1
    assert again.study_name == others[0].study_name
    with pytest.raises(ValueError, match="belongs to another search"):
        open_study(path, ABOUT, RandomSampler(seed=0))


def test_two_processes_that_begin_the_same_search_in_the_same_moment_share_it(path, monkeypatch):
    write = optuna.Study.set_user_attr

    def after_another(study, key, value):
        monkeypatch.setattr(optuna.Study, "set_user_attr", write)
        begin(path, n_trials=1)
        write(study, key, value)

    monkeypatch.setattr(optuna.Study, "set_user_attr", after_another)
    assert len(begin(path, n_trials=1).trials) == 2


def test_optuna_speaks_as_before_afterwards():
    before = optuna.logging.get_verbosity()
    with pytest.raises(KeyError), quiet():
        raise KeyError
    assert optuna.logging.get_verbosity() == before
