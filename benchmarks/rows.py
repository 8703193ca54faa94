"""Result rows of a benchmark: a file of JSON lines, so that a stopped run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def stored(path: Path) -> list[dict[str, Any]]:
    """All rows so far; none if there is no file yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows at the end of a file, which need not be there yet."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
