"""`stablemiss fit`: a file with holes in, a model out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.files import check_column, check_readable, read_table, text_entries
from stablemiss.text import looks_like_dates, non_numeric_entry
from stablemiss.writing import check_folder

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

# What `fit` and `tune` ask alike.
Data = Annotated[Path, typer.Argument(help="Table to learn from: .csv, .csv.gz or .parquet.")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
MethodName = Annotated[str, typer.Option(help="How to learn; see: stablemiss methods.")]
Params = Annotated[
    str | None,
    typer.Option(
        help="Hyper-parameters of the method: JSON such as '{\"ridge\": 0.1}', or a file of it as "
        "`stablemiss tune` writes.",
        show_default=False,
    ),
]
Classify = Annotated[
    bool | None,
    typer.Option(
        "--classify/--regress",
        help="Predict classes or numbers; by default numbers where the target is numeric.",
        show_default=False,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="Column to leave out, such as a row number; repeat for several.", show_default=False),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="Column whose numbers are names, such as a code; repeat for several.", show_default=False
    ),
]


def fit(
    data: Data,
    target: Target,
    method: MethodName = "em_mixture",
    params: Params = None,
    model: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.stablemiss"),
    classify: Classify = None,
    ignore: Ignore = None,
    category: Category = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.", min=0)] = 0,
) -> None:
    """Learn to predict one column of a table from the others, whatever is missing in them."""
    with plain_errors():
        check_readable(data)
        check_folder(model)
        settings = read_params(params)
        rows = read_rows(data, target, classify, ignore or [], category or [])
        features = rows.features

        # Torch and scikit-learn take seconds to load: only now, when the arguments are known to be right.
        from stablemiss.estimators import MissingClassifier, MissingRegressor

        kind = MissingClassifier if rows.classify else MissingRegressor
        start = monotonic()
        estimator = kind(method=method, params=settings, random_state=seed, verbose=sys.stderr.isatty())
        estimator.fit(features, rows.target)
        seconds = monotonic() - start
        estimator.save(model)
        share = sum(column.null_count for column in features.columns) / (
            features.num_rows * features.num_columns
        )
        left_out = f" ({rows.n_left_out:,} without {target!r} left out)" if rows.n_left_out else ""
        task = "classification" if rows.classify else "regression"
        typer.echo(
            f"Learnt {target!r} from {features.num_rows:,} rows{left_out} and {features.num_columns:,} "
            f"columns with {share:.1%} of their cells missing: {method}, {task}, {seconds:.1f} s."
        )
        typer.echo(f"Model: {model}")


class LearningRows(NamedTuple):
    """What a file holds to learn from."""

    features: pyarrow.Table
    target: NDArray[Any]
    classify: bool
    n_left_out: int


def read_rows(
    data: Path, target: str, classify: bool | None, ignore: list[str], category: list[str]
) -> LearningRows:
    """The rows of a file whose target is known, after all checks that take no time."""
    table = read_table(data, text_columns=category)
    for name in [target, *ignore, *category]:
        check_column(table, name, data)
    if not classify and target not in category:
        check_mostly_numeric(table, target, data, "If they are names of classes, use --classify.")
    table, n_left_out = with_target(table, target, data)
    is_numeric, y = to_target(table, target, data)
    if classify is None:
        classify = not is_numeric
    if not classify and not is_numeric:
        raise ValueError(
            f"Column {target!r} of {data} holds text, so it can only be classified: use --classify."
        )
    features = table.drop_columns(list(dict.fromkeys([target, *ignore])))
    if not features.num_columns:
        raise ValueError(f"{data} has no columns left to predict {target!r} from.")
    check_features(features, category, data)
    return LearningRows(features, y, classify, n_left_out)


def read_params(given: str | None) -> dict[str, Any] | None:
    """Hyper-parameters from JSON, or from a file of it.

    Examples
    --------
    >>> read_params('{"depth": 5}')
    {'depth': 5}
    """
    if given is None:
        return None
    text = given
    if not given.lstrip().startswith("{"):
        if not Path(given).is_file():
            raise ValueError(
                f"--params takes JSON such as '{{\"ridge\": 0.1}}', or a file; there is no {given}."
            )
        text = Path(given).read_text()
    try:
        params = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--params {given} cannot be read as JSON: {error}.") from error
    if not isinstance(params, dict):
        raise ValueError(f'--params {given} should hold names and values, as in {{"ridge": 0.1}}.')
    return params


def check_features(features: pyarrow.Table, categories: list[str], path: Path) -> None:
    """Raise, in one sentence, where a column cannot be learnt from or is hardly what was meant."""
    from pyarrow import types

    for field in features.schema:
        column, entries = features.column(field.name), text_entries(features.column(field.name))
        if field.name in categories:
            if types.is_primitive(field.type):
                raise ValueError(
                    f"Column {field.name!r} of {path} holds {field.type}; write it as text to use it with "
                    "--category."
                )
            continue
        advice = (
            f"If the numbers are names, use --category {field.name!r}; to leave the column out, "
            f"--ignore {field.name!r}."
        )
        check_mostly_numeric(features, field.name, path, advice)
        times = column.drop_null() if types.is_temporal(field.type) else []
        date = looks_like_dates(entries) or next(map(str, times), None)
        if date is not None:
            raise ValueError(
                f"Column {field.name!r} of {path} holds dates or times, such as {date}, which cannot be used "
                "as they are. Turn them into numbers that mean something for the prediction, such as the "
                "weekday or the days since a fixed date, or leave the column out with --ignore "
                f"{field.name!r}."
            )


def check_mostly_numeric(table: pyarrow.Table, name: str, path: Path, advice: str) -> None:
    """Raise, in one sentence, where a column of numbers became text through a few entries that are none."""
    if (entry := non_numeric_entry(text_entries(table.column(name)))) is not None:
        raise ValueError(
            f"Column {name!r} of {path} holds numbers but for a few entries such as {entry!r}, which would "
            f"make text of all of them. Correct these entries or leave them empty. {advice}"
        )


def with_target(table: pyarrow.Table, target: str, path: Path) -> tuple[pyarrow.Table, int]:
    """The rows in which the target is known, and how many are not among them."""
    from pyarrow import compute, types

    if types.is_floating(table.column(target).type):
        row = compute.index(compute.is_inf(table.column(target)), True).as_py()
        if row >= 0:
            raise ValueError(
                f"Column {target!r} of {path} is infinite in row {row + 1} (the first is row 1), which no "
                "model can learn. Correct such entries, or leave them empty to leave out their rows."
            )
    known = compute.invert(compute.is_null(table.column(target), nan_is_null=True))
    kept = table.filter(known)
    if not kept.num_rows:
        raise ValueError(
            f"Column {target!r} of {path} has no value in any row; there is nothing to learn from."
        )
    return kept, table.num_rows - kept.num_rows


def to_target(table: pyarrow.Table, target: str, path: Path) -> tuple[bool, NDArray[Any]]:
    """Whether the target holds numbers (classes otherwise), and its values as an array."""
    import numpy
    from pyarrow import types

    column = table.column(target)
    if types.is_temporal(column.type) or types.is_nested(column.type):
        raise ValueError(
            f"The target should hold numbers, text or true and false, but column {target!r} of {path} holds "
            f"{column.type}."
        )
    is_numeric = (
        types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)
    )
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return is_numeric, numpy.asarray(column.to_pylist())
