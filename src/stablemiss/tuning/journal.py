"""The file that holds a study: every step a line of JSON, added by any process that takes part."""

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

from stablemiss.writing import check_folder

NAME = "stablemiss tuning"
# Seconds after which a lock is taken for a dead process's; to write a line takes milliseconds.
PATIENCE = 10


def open_study(path: Path | None, about: dict[str, str], sampler: BaseSampler) -> optuna.Study:
    """The study in a file, begun or continued; one in memory alone without a path.

    Parameters
    ----------
    path : Path, optional
        A file that is not there yet, or that an earlier search for the same left.
    about : dict
        What is searched. A file that was begun for anything else is refused, and stays as it was.
    sampler : BaseSampler
        What proposes the next trial.
    """
    if path is None:
        return optuna.create_study(sampler=sampler)
    check_folder(path)
    # Absolute: processes may start in different folders.
    path = path.resolve()
    _check_is_journal(path)
    storage = JournalStorage(JournalFileBackend(str(path), lock_obj=MendingLock(str(path))))
    names = [study.study_name for study in storage.get_all_studies()]
    if names and NAME not in names:
        raise ValueError(f"{path} holds a study of optuna's that tune did not begin; give another file.")
    # To create one writes to the file, even where there is one to be loaded.
    if names:
        study = optuna.load_study(study_name=NAME, storage=storage, sampler=sampler)
    else:
        study = optuna.create_study(study_name=NAME, storage=storage, sampler=sampler, load_if_exists=True)
    if not study.user_attrs:
        # Under a name of its own: of two searches that begin in the same moment none overwrites the other.
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
        study.set_user_attr(f"about {digest}", about)
    # Read from the file also by the one who wrote: the first in it counts, for all.
    there = next(iter(study.user_attrs.values()))
    if there != about:
        key = next(key for key in about if about[key] != there.get(key))
        raise ValueError(
            f"{path} belongs to another search: its {key} is {there.get(key)}, but here it is {about[key]}. "
            "Continue it with what it was begun with, or give another file."
        )
    return study


class MendingLock(JournalFileOpenLock):
    """Only one process writes at a time; half a line that a killed one left is cut off first.

    Optuna by itself would add the next line to that half, and nobody could read the file any more. Who was
    killed while it held the lock keeps the others waiting for `PATIENCE` seconds.
    """

    def __init__(self, path: str):
        super().__init__(path, grace_period=PATIENCE)
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
def quiet() -> Iterator[None]:
    """Without optuna's own remarks on standard error, which it otherwise makes about every study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _check_is_journal(path: Path) -> None:
    """Nothing is ever written to a file of another kind."""
    if not path.exists():
        return
    with path.open("rb") as file:
        first = file.readline()
    if not first:
        return
    try:
        is_journal = first.endswith(b"\n") and "op_code" in json.loads(first)
    except (ValueError, TypeError):
        is_journal = False
    if not is_journal:
        raise ValueError(
            f"{path} is no study that tune began; give another file, or one that is not there yet."
        )
