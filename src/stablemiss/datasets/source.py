"""Where a real table comes from: a data folder, else its original source, else one sentence of advice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from stablemiss.data import Floats
from stablemiss.writing import whole_file

ENVIRONMENT = "STABLEMISS_DATA"


@dataclass(frozen=True, eq=False)
class Table:
    """A table to learn from, with what one must know to use and cite it.

    Attributes
    ----------
    X : (n, d) float64
        Features in their own units, one row per case; NaN = missing.
    y : (n,) float64
        Target, never missing.
    feature_names : tuple of str
        Names of the columns of X.
    target_name : str
        Name of y.
    description : str
        What a row is, the units, and what was left out.
    licence : str
        Under which terms the data may be used.
    source : str
        Address of the page that describes the data.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table(np.array([[1.0, np.nan]]), np.array([2.0]), ("a", "b"), "y", "One row.", "CC0", "")
    >>> table.X.shape
    (1, 2)
    """

    X: Floats
    y: Floats
    feature_names: tuple[str, ...]
    target_name: str
    description: str
    licence: str
    source: str


def data_folder(data_home: str | os.PathLike | None = None) -> Path:
    """The folder that holds the real tables.

    Parameters
    ----------
    data_home : path or None
        Used as it is when given; otherwise the environment variable STABLEMISS_DATA, otherwise
        ``.cache/stablemiss`` in the user's home.

    Examples
    --------
    >>> data_folder("tables").name
    'tables'
    """
    return Path(
        data_home or os.environ.get(ENVIRONMENT) or Path.home() / ".cache" / "stablemiss"
    ).expanduser()


def download(url: str) -> bytes:
    """What stands at `url`; a server that says nothing for 30 seconds counts as absent."""
    with urlopen(url, timeout=30) as answer:
        return answer.read()


def check_digest(content: bytes, expected: str, name: str, algorithm: str = "sha256") -> None:
    """Raise unless the digest of `content` is `expected` (hexadecimal).

    Examples
    --------
    >>> check_digest(b"", "d41d8cd98f00b204e9800998ecf8427e", "nothing", "md5")
    """
    found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(
            f"{name} is damaged or another edition: its {algorithm} should be {expected} but is {found}; "
            "delete it and load again, or replace it by the original."
        )


@dataclass(frozen=True)
class Source:
    """One file of a real data set: its place in the data folder, its digest, and how to fetch it.

    Attributes
    ----------
    title : str
        What the data are called in messages.
    path : str
        Place of the file in the data folder.
    sha256 : str
        Digest of the file as its publisher distributes it.
    page : str
        Where a person can download the file by hand.
    fetch : () -> bytes
        Downloads the content of the file and checks that it arrived whole.
    """

    title: str
    path: str
    sha256: str
    page: str
    fetch: Callable[[], bytes]

    def read(self, data_home: str | os.PathLike | None = None) -> str:
        """The file's text, from the data folder or, the first time, from its source."""
        file = data_folder(data_home) / self.path
        if not file.exists():
            self._fetch_into(file)
        content = file.read_bytes()
        note = _digest_note(file)
        if _sha256(content) != self.sha256 and note.exists():
            # The source serves the same table in another format, whose digest was noted when it arrived.
            check_digest(content, note.read_text(encoding="ascii").strip(), str(file))
        else:
            check_digest(content, self.sha256, str(file))
        return content.decode("utf-8")

    def _fetch_into(self, file: Path) -> None:
        try:
            content = self.fetch()
            file.parent.mkdir(parents=True, exist_ok=True)
            _digest_note(file).write_text(_sha256(content) + "\n", encoding="ascii")
            # Two processes may fetch at the same time, and one may be stopped: no one must see half a file.
            with whole_file(file) as unfinished:
                unfinished.write_bytes(content)
        # Whatever went wrong (no network, a proxy's error page, a read-only folder), the way out is the same.
        except Exception as reason:
            raise FileNotFoundError(
                f"{self.title} are not in {file} and could not be fetched "
                f"({type(reason).__name__}: {reason}): download {file.name} from {self.page} and put it "
                f"there, or give the folder that holds {self.path} as data_home or in the environment "
                f"variable {ENVIRONMENT}."
            ) from reason


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_note(file: Path) -> Path:
    return file.with_name(file.name + ".sha256")
