"""`stablemiss adapt` does what `adapt` does in Python, with the tables of files."""

import numpy as np
import pyarrow
import pytest

from stablemiss import load_model
from stablemiss.cli.writing import write_table

FAST = ("--params", '{"members": ["boosting"]}', "--budget", "fast", "--ignore", "id")


@pytest.fixture
def new(table, tmp_path):
    """Twenty rows in which `size` has died."""
    rows = table.slice(0, 20).drop_columns(["price", "expensive"])
    write_table(rows.set_column(1, "size", pyarrow.nulls(20, pyarrow.float64())), tmp_path / "new.csv")
    return tmp_path / "new.csv"


@pytest.mark.parametrize(("target", "other"), [("price", "expensive"), ("expensive", "price")])
def test_a_file_of_the_training_rows_and_rows_in_the_model_give_the_same(run, houses, new, target, other):
    result = run("fit", houses, "--target", target, "--ignore", other, *FAST, "--keep-training-rows")
    assert result.exit_code == 0, result.output
    result = run("adapt", "model.stablemiss", new, "--train", houses, "--output", "by_file.stablemiss")
    assert result.exit_code == 0, result.output
    assert "Adapted to the missing values of 20 rows; wrote by_file.stablemiss" in result.stdout
    assert "validation rows with these missing values" in result.stdout
    assert run("adapt", "model.stablemiss", new).exit_code == 0
    rows = [[None, "house"], [None, "flat"]]
    models = [load_model(name) for name in ("by_file.stablemiss", "adapted.stablemiss")]
    np.testing.assert_array_equal(*(model.predict(rows) for model in models))
    assert not models[0].verbose


def test_wrong_arguments_and_nothing_is_written(run, error_of, houses, new, table, tmp_path):
    run("fit", houses, "--target", "price", "--ignore", "expensive", *FAST)
    assert "Give them with --train, or fit with --keep-training-rows" in error_of(
        "adapt", "model.stablemiss", new
    )
    assert "'price'" in error_of("adapt", "model.stablemiss", new, "--train", new)
    write_table(table.slice(0, 50), tmp_path / "fewer.csv")
    assert "--train must be the table" in error_of("adapt", "model.stablemiss", new, "--train", "fewer.csv")
    assert "--output" in error_of("adapt", "model.stablemiss", new, "--output", "model.stablemiss")
    run("fit", houses, "--target", "price", "--method", "ols", "--model", "ols.stablemiss")
    assert "MissingRegressor" in error_of("adapt", "ols.stablemiss", new)
    assert not (tmp_path / "adapted.stablemiss").exists()
    arguments = ("--method", "ols", "--keep-training-rows")
    assert "can be adapted" in error_of("fit", houses, "--target", "price", *arguments)


def test_the_training_table_is_read_as_fit_reads_it(run, table, tmp_path):
    """A code for missing targets in a typed file, a column of digits that is categorical, and groups."""
    coded = table.set_column(3, "price", table.column("price").fill_null(-999.0)).drop_columns("expensive")
    write_table(coded.append_column("code", pyarrow.array(np.arange(300) % 4)), tmp_path / "t.parquet")
    rows = table.slice(0, 20).select(["size", "kind"]).append_column("code", pyarrow.array(np.arange(20) % 4))
    write_table(rows, tmp_path / "new.parquet")
    options = ("--missing-value", "-999", "--category", "code", "--groups", "id")
    result = run("fit", "t.parquet", "--target", "price", *FAST[:-2], *options)
    assert result.exit_code == 0, result.output
    result = run("adapt", "model.stablemiss", "new.parquet", "--train", "t.parquet")
    assert result.exit_code == 0, result.output
