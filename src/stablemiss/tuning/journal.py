"""Stores a study in a file to which all processes of the search append lines of JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.samplers import BaseSampler
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

from stablemiss.writing import check_can_write

STUDY_NAME = "stablemiss tuning"
# Seconds after which a lock is considered abandoned by a killed process. Writing a line takes milliseconds.
LOCK_TIMEOUT = 10


def open_study(path: Path | None, settings: dict[str, str], sampler: BaseSampler) -> optuna.Study:
    """Create a study in a file, or load it if it exists.

    Parameters
    ----------
    path : Path or None
        A new file, or the file of an earlier search with the same settings. None keeps the study in memory.
    settings : dict
        Settings of the search. A file with other settings raises ValueError and is not modified.
    sampler : BaseSampler
        Proposes the hyper-parameters of the next trial.
    """
    if path is None:
        return optuna.create_study(sampler=sampler)
    check_can_write(path)
    # An absolute path, because worker processes may have another working directory.
    path = path.resolve()
    _check_is_journal(path)
    storage = JournalStorage(JournalFileBackend(str(path), lock_obj=RepairingLock(str(path))))
    names = [study.study_name for study in storage.get_all_studies()]
    if names and STUDY_NAME not in names:
        raise ValueError(f"{path} is an optuna study that was not created by tune. Choose another file.")
    # An existing study is loaded, because create_study would write to the file.
    if names:
        study = optuna.load_study(study_name=STUDY_NAME, storage=storage, sampler=sampler)
    else:
        study = optuna.create_study(
            study_name=STUDY_NAME, storage=storage, sampler=sampler, load_if_exists=True
        )
    if not study.user_attrs:
        # The key depends on the settings, so that simultaneous searches do not overwrite each other.
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        study.set_user_attr(f"settings {digest}", settings)
    # If several processes start at the same time, the settings that were written first are valid for all of
    # them, so they are read back even after writing.
    stored = next(iter(study.user_attrs.values()))
    if stored != settings:
        key = next(key for key in settings if settings[key] != stored.get(key))
        raise ValueError(
            f"{path} belongs to another search, with {key} {stored.get(key)}; got {settings[key]}. "
            "Use the same settings to continue it, or choose another file."
        )
    return study


class RepairingLock(JournalFileOpenLock):
    """File lock that removes an incomplete last line, left by a killed process, before the next write.

    Optuna alone would append to the incomplete line and make the file unreadable. If a process is killed
    while it holds the lock, the others wait for `LOCK_TIMEOUT` seconds.
    """

    def __init__(self, path: str):
        super().__init__(path, grace_period=LOCK_TIMEOUT)
        self._path = path

    def acquire(self) -> bool:
        acquired = super().acquire()
        with open(self._path, "rb+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if file.read(1) not in (b"", b"\n"):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        return acquired


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Context manager that suppresses the messages optuna logs for every study and trial."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _check_is_journal(path: Path) -> None:
    """Raise ValueError if an existing file is not a journal of optuna, so that it is never overwritten."""
    if not path.exists():
        return
    with path.open("rb") as file:
        first_line = file.readline()
    if not first_line:
        return
    try:
        is_journal = first_line.endswith(b"\n") and "op_code" in json.loads(first_line)
    except (ValueError, TypeError):
        is_journal = False
    if not is_journal:
        raise ValueError(
            f"{path} is not a study created by tune. Choose another file, or one that does not exist yet."
        )
