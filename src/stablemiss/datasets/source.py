"""Reads real data sets from the data folder, and downloads them if they are not there yet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from stablemiss.checks import check_path
from stablemiss.data import Floats
from stablemiss.writing import atomic_write

ENVIRONMENT_VARIABLE = "STABLEMISS_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its description, licence and source.

    Attributes
    ----------
    X : (n, d) float64
        Features in their original units, one row per sample; NaN = missing.
    y : (n,) float64
        Target, never missing.
    feature_names : tuple of str
        Names of the columns of X.
    target_name : str
        Name of y.
    description : str
        Meaning of the rows, units, and dropped rows or columns.
    licence : str
        Licence of the data.
    source : str
        URL of the page that describes the data.

    See Also
    --------
    load_house_sales : A real table in this form.
    make_flats : A generated one.

    Examples
    --------
    >>> import numpy as np
    >>> dataset = Dataset(np.array([[1.0, np.nan]]), np.array([2.0]), ("a", "b"), "y", "One row.", "CC0", "")
    >>> dataset.X.shape
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
    """Return the folder of the real data sets.

    Parameters
    ----------
    data_home : path, default=None
        The folder. None means the environment variable STABLEMISS_DATA or, if it is not set,
        ``.cache/stablemiss`` in the home folder.

    Examples
    --------
    >>> data_folder("my_data").name
    'my_data'
    """
    if data_home is not None:
        check_path("data_home", data_home)
    return Path(
        data_home or os.environ.get(ENVIRONMENT_VARIABLE) or Path.home() / ".cache" / "stablemiss"
    ).expanduser()


def download(url: str) -> bytes:
    """Download the content of `url`, with a timeout of 30 seconds."""
    with urlopen(url, timeout=30) as response:
        return response.read()


def check_digest(content: bytes, expected: str, name: str, algorithm: str = "sha256") -> None:
    """Raise ValueError unless `content` has the expected digest.

    Parameters
    ----------
    content : bytes
        Content of a file.
    expected : str
        Digest in hexadecimal.
    name : str
        Name of the file in the error message.
    algorithm : str, default="sha256"
        A hash algorithm of `hashlib`.

    Examples
    --------
    >>> check_digest(b"", "d41d8cd98f00b204e9800998ecf8427e", "empty.csv", "md5")
    """
    digest = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{name} is corrupt or a different version: its {algorithm} must be {expected}; got {digest}. "
            "Delete the file to download it again, or replace it with the original."
        )


@dataclass(frozen=True)
class Source:
    """One file of a real data set: its path in the data folder, its digest, and its download.

    Attributes
    ----------
    title : str
        Name of the data in messages.
    path : str
        Path of the file in the data folder.
    sha256 : str
        Digest of the original file.
    page : str
        URL of a page for downloading the file manually.
    fetch : () -> bytes
        Downloads the content of the file and checks it.
    """

    title: str
    path: str
    sha256: str
    page: str
    fetch: Callable[[], bytes]

    def read(self, data_home: str | os.PathLike | None = None) -> str:
        """Return the text of the file; download it to the data folder first if it is not there yet.

        Parameters
        ----------
        data_home : path, default=None
            Data folder; see `data_folder`.
        """
        file = data_folder(data_home) / self.path
        if not file.exists():
            self._fetch_into(file)
        content = file.read_bytes()
        digest_file = _digest_file(file)
        if _sha256(content) != self.sha256 and digest_file.exists():
            # The downloaded file has a different format from the original; its digest was stored beside it.
            check_digest(content, digest_file.read_text(encoding="ascii").strip(), str(file))
        else:
            check_digest(content, self.sha256, str(file))
        return content.decode("utf-8")

    def _fetch_into(self, file: Path) -> None:
        try:
            content = self.fetch()
            file.parent.mkdir(parents=True, exist_ok=True)
            _digest_file(file).write_text(_sha256(content) + "\n", encoding="ascii")
            # Written atomically, because several processes may download at the same time.
            with atomic_write(file) as unfinished:
                unfinished.write_bytes(content)
        # The remedy is the same for every error (no network, an error page of a proxy, a read-only folder).
        except Exception as reason:
            raise FileNotFoundError(
                f"{self.title} are not in {file} and could not be downloaded "
                f"({type(reason).__name__}: {reason}): download {file.name} from {self.page} and put it "
                f"there, or pass the folder that contains {self.path} as data_home or in the environment "
                f"variable {ENVIRONMENT_VARIABLE}."
            ) from reason


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_file(file: Path) -> Path:
    return file.with_name(file.name + ".sha256")
