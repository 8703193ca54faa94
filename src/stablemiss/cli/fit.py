"""`stablemiss fit`: fit a model to the table in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.files import check_column, check_readable, read_table, text_entries
from stablemiss.text import first_date_entry, non_numeric_entry
from stablemiss.writing import check_can_write

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

# Options that `fit` and `tune` share.
Data = Annotated[Path, typer.Argument(help="Training table: .csv, .csv.gz or .parquet.")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
MethodName = Annotated[str, typer.Option(help="Method to fit; see: stablemiss methods.")]
Params = Annotated[
    str | None,
    typer.Option(
        help="Hyper-parameters of the method: JSON such as '{\"ridge\": 0.1}', or a JSON file as written by "
        "`stablemiss tune`.",
        show_default=False,
    ),
]
Classify = Annotated[
    bool | None,
    typer.Option(
        "--classify/--regress",
        help="Classification or regression. Default: regression if the target is numeric.",
        show_default=False,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="Drop this column, for example an identifier. Can be repeated.", show_default=False),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="Treat this numeric column as categorical, for example a code. Can be repeated.",
        show_default=False,
    ),
]


def fit(
    data: Data,
    target: Target,
    method: MethodName = "em_mixture",
    params: Params = None,
    model: Annotated[Path, typer.Option(help="Model file to write.")] = Path("model.stablemiss"),
    classify: Classify = None,
    ignore: Ignore = None,
    category: Category = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
) -> None:
    """Fit a model that predicts one column of a table from the others, which may have missing values."""
    with plain_errors():
        check_readable(data)
        check_can_write(model)
        settings = read_params(params)
        rows = read_rows(data, target, classify, ignore or [], category or [])
        features = rows.features

        # Torch and scikit-learn take seconds to import, so the arguments are checked first.
        from stablemiss.estimators import MissingClassifier, MissingRegressor

        estimator_class = MissingClassifier if rows.classify else MissingRegressor
        start = monotonic()
        estimator = estimator_class(
            method=method, params=settings, random_state=seed, verbose=sys.stderr.isatty()
        )
        estimator.fit(features, rows.target)
        seconds = monotonic() - start
        estimator.save(model)
        missing = sum(column.null_count for column in features.columns) / (
            features.num_rows * features.num_columns
        )
        dropped = f" ({rows.n_dropped:,} without {target!r} dropped)" if rows.n_dropped else ""
        task = "classification" if rows.classify else "regression"
        typer.echo(
            f"Fitted {method} to predict {target!r} from {features.num_columns:,} columns with {missing:.1%} "
            f"missing values, on {features.num_rows:,} rows{dropped}: {task}, {seconds:.1f} s."
        )
        typer.echo(f"Model: {model}")


class TrainingRows(NamedTuple):
    """The rows of a file in which the target is not missing.

    Attributes
    ----------
    features : pyarrow.Table
        All columns except the target and the ignored ones.
    target : (n,)
        Numbers or labels.
    classify : bool
        Whether the task is classification.
    n_dropped : int
        Number of rows in which the target is missing.
    """

    features: pyarrow.Table
    target: NDArray[Any]
    classify: bool
    n_dropped: int


def read_rows(
    data: Path, target: str, classify: bool | None, ignore: list[str], category: list[str]
) -> TrainingRows:
    """Read the training rows from a file and check them."""
    table = read_table(data, text_columns=category)
    for name in [target, *ignore, *category]:
        check_column(table, name, data)
    if not classify and target not in category:
        check_mostly_numeric(table, target, data, "If they are class labels, use --classify.")
    table, n_dropped = drop_missing_target(table, target, data)
    is_numeric, y = to_target(table, target, data)
    if classify is None:
        classify = not is_numeric
    if not classify and not is_numeric:
        raise ValueError(
            f"Column {target!r} in {data} is not numeric, so regression is not possible; use --classify."
        )
    features = table.drop_columns(list(dict.fromkeys([target, *ignore])))
    if not features.num_columns:
        raise ValueError(f"{data} has no columns left to predict {target!r} from.")
    check_features(features, category, data)
    return TrainingRows(features, y, classify, n_dropped)


def read_params(argument: str | None) -> dict[str, Any] | None:
    """Read hyper-parameters from JSON text or from a JSON file.

    Examples
    --------
    >>> read_params('{"depth": 5}')
    {'depth': 5}
    """
    if argument is None:
        return None
    text = argument
    if not argument.lstrip().startswith("{"):
        if not Path(argument).is_file():
            raise ValueError(
                f"--params must be JSON such as '{{\"ridge\": 0.1}}' or a JSON file; "
                f"there is no file {argument}."
            )
        text = Path(argument).read_text()
    try:
        params = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--params {argument} is not valid JSON: {error}.") from error
    if not isinstance(params, dict):
        raise ValueError(f'--params {argument} must be a JSON object such as {{"ridge": 0.1}}.')
    return params


def check_features(features: pyarrow.Table, categories: list[str], path: Path) -> None:
    """Raise ValueError if a column has a type that is unsupported or probably not intended."""
    from pyarrow import types

    for field in features.schema:
        column, entries = features.column(field.name), text_entries(features.column(field.name))
        if field.name in categories:
            if types.is_primitive(field.type):
                raise ValueError(
                    f"Column {field.name!r} in {path} has type {field.type}; --category needs text. Convert "
                    "the column to text."
                )
            continue
        advice = (
            f"To treat the column as categorical, use --category {field.name!r}; to drop it, use "
            f"--ignore {field.name!r}."
        )
        check_mostly_numeric(features, field.name, path, advice)
        times = column.drop_null() if types.is_temporal(field.type) else []
        date = first_date_entry(entries) or next(map(str, times), None)
        if date is not None:
            raise ValueError(
                f"Column {field.name!r} in {path} contains dates or times, such as {date}, which are not "
                "supported. Convert them to numbers that are informative for the prediction, such as the "
                f"weekday or the days since a fixed date, or drop the column with --ignore {field.name!r}."
            )


def check_mostly_numeric(table: pyarrow.Table, name: str, path: Path, advice: str) -> None:
    """Raise ValueError if a column is text only because of a few non-numeric entries."""
    if (entry := non_numeric_entry(text_entries(table.column(name)))) is not None:
        raise ValueError(
            f"Column {name!r} in {path} is numeric except for entries such as {entry!r}, which would turn "
            f"the whole column into text. Correct these entries or leave them empty. {advice}"
        )


def drop_missing_target(table: pyarrow.Table, target: str, path: Path) -> tuple[pyarrow.Table, int]:
    """Drop rows in which the target is missing; return the remaining rows and the number of dropped rows."""
    from pyarrow import compute, types

    if types.is_floating(table.column(target).type):
        row = compute.index(compute.is_inf(table.column(target)), True).as_py()
        if row >= 0:
            raise ValueError(
                f"Column {target!r} in {path} is infinite in row {row + 1} (the first row is row 1), but the "
                "target must be finite. Correct such entries, or leave them empty to drop their rows."
            )
    has_target = compute.invert(compute.is_null(table.column(target), nan_is_null=True))
    kept = table.filter(has_target)
    if not kept.num_rows:
        raise ValueError(
            f"Column {target!r} in {path} has no values; the target must have a value in at least one row."
        )
    return kept, table.num_rows - kept.num_rows


def to_target(table: pyarrow.Table, target: str, path: Path) -> tuple[bool, NDArray[Any]]:
    """Whether the target is numeric, and its values as an array."""
    import numpy
    from pyarrow import types

    column = table.column(target)
    if types.is_temporal(column.type) or types.is_nested(column.type):
        raise ValueError(
            f"The target must be numeric, text or boolean; column {target!r} in {path} has type "
            f"{column.type}."
        )
    is_numeric = (
        types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)
    )
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return is_numeric, numpy.asarray(column.to_pylist())
