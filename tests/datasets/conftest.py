"""No test in this folder uses the network. Tests with real tables are skipped if the files are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import pytest

from stablemiss.datasets import source


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, **options: object) -> bytes:
        raise URLError(f"no network for {url}")

    monkeypatch.setattr(source, "download", refuse)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)


@pytest.fixture
def real_folder() -> Callable[[source.Source | str], Path]:
    """Returns the data folder if it contains the real file; otherwise skips the test."""

    def folder_of(table: source.Source | str) -> Path:
        path = table if isinstance(table, str) else table.path
        folder = Path(os.environ.get(source.ENVIRONMENT_VARIABLE, ""))
        if source.ENVIRONMENT_VARIABLE not in os.environ or not (folder / path).exists():
            pytest.skip(f"needs the real file: set {source.ENVIRONMENT_VARIABLE} to the folder of {path}")
        return folder

    return folder_of
