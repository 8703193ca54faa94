"""Fixtures to run commands, and a small table with missing values."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from typer.testing import CliRunner, Result

from stablemiss.cli.app import app
from stablemiss.cli.writing import write_table


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `stablemiss` with arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes | None = None) -> Result:
        # A fixed width, so that messages have the same line breaks everywhere.
        texts = [str(argument) for argument in arguments]
        return CliRunner().invoke(app, texts, input=stdin, env={"COLUMNS": "100"})

    return run


@pytest.fixture
def error_of(run: Callable[..., Result]) -> Callable[..., str]:
    """Run `stablemiss` with an invalid argument and return its error: one line, exit code 2."""

    def error_of(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    return error_of


@pytest.fixture
def table() -> pyarrow.Table:
    """Rows in which `price` depends on `size` and `kind`; all three have missing values."""
    rng = np.random.default_rng(0)
    n = 300
    size = rng.normal(size=n)
    kind = rng.choice(["flat", "house"], size=n)
    price = 100 + 20 * size + np.where(kind == "house", 30, 0) + rng.normal(size=n)
    hidden = rng.random((3, n)) < 0.1
    return pyarrow.table(
        {
            "id": np.arange(n),
            "size": pyarrow.array(size, mask=hidden[0]),
            "kind": pyarrow.array(kind, mask=hidden[1]),
            "price": pyarrow.array(price, mask=hidden[2]),
            "expensive": pyarrow.array(np.where(price > 115, "yes", "no")),
        }
    )


@pytest.fixture(params=["houses.csv", "houses.parquet", "houses.feather", "houses.jsonl.gz", "houses.xlsx"])
def data(request: pytest.FixtureRequest, table: pyarrow.Table, tmp_path: Path) -> Path:
    """The table in each file format."""
    write_table(table, tmp_path / request.param)
    return tmp_path / request.param


@pytest.fixture
def houses(table: pyarrow.Table, tmp_path: Path) -> Path:
    """The table as CSV."""
    write_table(table, tmp_path / "houses.csv")
    return tmp_path / "houses.csv"
