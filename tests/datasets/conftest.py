"""No test of this folder reaches the network; real tables are used only where they already are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import pytest

from stablemiss.datasets import source


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> bytes:
        raise URLError(f"no network for {url}")

    monkeypatch.setattr(source, "download", refuse)


@pytest.fixture
def real_folder() -> Callable[[source.Source], Path]:
    """Gives the folder that really holds a source's file; where it is not, the test is skipped."""

    def folder_of(table: source.Source) -> Path:
        folder = Path(os.environ.get(source.ENVIRONMENT, ""))
        if source.ENVIRONMENT not in os.environ or not (folder / table.path).exists():
            pytest.skip(
                f"needs the real file: set {source.ENVIRONMENT} to the folder that holds {table.path}"
            )
        return folder

    return folder_of
