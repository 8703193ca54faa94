"""The rows of a file on which a model is fitted, checked before the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stablemiss.cli.columns import Remarks, TextRules, are_dates, infer_types, is_numeric, is_text
from stablemiss.cli.dialect import Dialect
from stablemiss.cli.entries import MISSING
from stablemiss.cli.errors import show_row
from stablemiss.cli.formats import Format, format_of, show_path
from stablemiss.cli.reading import ReadOptions, read_table

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

# A numeric target with at most this many different values, all whole, may consist of classes.
MAX_CLASS_VALUES = 10
# A target with more classes than this, and than a third of the rows, is refused: a fit would take very long.
MAX_CLASSES = 100


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are used for.

    Attributes
    ----------
    target : str
        Column to predict.
    classify : bool, default=None
        Whether the target consists of classes. None decides by its type.
    ignore : sequence of str, default=()
        Columns that are not used.
    category : sequence of str, default=()
        Columns that are categorical, whatever their entries are.
    groups : str, default=None
        Column whose groups are kept together in training or validation. It is not a feature.
    time : str, default=None
        Column by which the latest rows become validation rows. It is a feature unless it is ignored.
    """

    target: str
    classify: bool | None = None
    ignore: Sequence[str] = ()
    category: Sequence[str] = ()
    groups: str | None = None
    time: str | None = None

    def features(self, column_names: list[str]) -> list[str]:
        """The columns from which the target is predicted."""
        used = {self.target, self.groups, *self.ignore}
        return [name for name in column_names if name not in used]

    def check_target(self) -> None:
        """Raise ValueError if the target has another role too."""
        others = {"--ignore": self.ignore, "--groups": [self.groups], "--time": [self.time]}
        for option, names in others.items():
            if self.target in names:
                raise ValueError(
                    f"Column {self.target!r} is the target, so it cannot be used with {option}; choose "
                    "another column."
                )


@dataclass
class TrainingRows:
    """The rows of a file in which the target is not missing.

    Attributes
    ----------
    features : pyarrow.Table
        The columns from which the target is predicted.
    target : (n,)
        Numbers or labels.
    classify : bool
        Whether the task is classification.
    numbers : (n,) int64
        Number of each row in the file, counted from 1.
    n_dropped : int
        Number of rows in which the target is missing.
    unused : dict
        Columns that are not used → the reason.
    remarks : Remarks
        What was noticed about the columns.
    dialect : Dialect or None
        How a CSV file is written.
    split : dict
        `groups` or `time` for the estimator's `fit`.
    """

    features: pyarrow.Table
    target: NDArray[Any]
    classify: bool
    numbers: NDArray[Any]
    n_dropped: int
    unused: dict[str, str]
    remarks: Remarks
    dialect: Dialect | None
    split: dict[str, NDArray[Any]] = field(default_factory=dict)


def text_rules(path: Path, options: ReadOptions, dialect: Dialect | None) -> TextRules:
    """How the text in a file is read.

    Parameters
    ----------
    path : Path
        The file.
    options : ReadOptions
        How to read it.
    dialect : Dialect or None
        How a CSV file is written.
    """
    # Cells of an Excel sheet are filled in by hand like those of a CSV file.
    has_markers = (options.format or format_of(path)) in (Format.csv, Format.excel)
    return TextRules(
        show_path(path),
        dialect.decimal if dialect else ".",
        (*MISSING, *options.missing_values) if has_markers else options.missing_values,
        is_untyped=dialect is not None,
    )


def read_training_rows(path: Path, roles: Roles, options: ReadOptions) -> TrainingRows:
    """Read the rows on which a model is fitted, and check them.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input.
    roles : Roles
        What the columns are used for.
    options : ReadOptions
        How to read the file.
    """
    table, dialect = read_table(path, options)
    rules = text_rules(path, options, dialect)
    for column in [roles.target, *roles.ignore, *roles.category, roles.groups, roles.time]:
        if column is not None:
            check_column(table.column_names, column, rules.name)
    roles.check_target()
    # Ignored columns are not parsed, because their entries do not matter.
    used = [
        name for name in table.column_names if name not in roles.ignore or name in (roles.groups, roles.time)
    ]
    features = roles.features(table.column_names)
    if not features:
        raise ValueError(f"{rules.name} has no columns left to predict {roles.target!r} from.")
    text = table.select(used)
    table, remarks = infer_types(text, rules, roles.category, roles.target, roles.classify)
    if dialect is not None and dialect.decimal == "." and options.decimal is None:
        remark_on_commas(text, table, remarks)
    n_rows = table.num_rows
    table, numbers = drop_missing_target(table, roles.target, rules.name)
    has_numbers, target = to_target(table.column(roles.target), roles.target, rules.name)
    classify = not has_numbers if roles.classify is None else roles.classify
    if not classify and not has_numbers:
        raise ValueError(
            f"Column {roles.target!r} in {rules.name} is not numeric, so regression is not possible; use "
            "--classify."
        )
    if classify:
        check_classes(target, roles.target, rules.name)
    remark_on_target(target, roles, classify, remarks)
    unused = dict.fromkeys(roles.ignore, "--ignore")
    split = {}
    for role, name in (("groups", roles.groups), ("time", roles.time)):
        if name is not None:
            split[role] = to_row_labels(table.column(name), f"{name!r} (--{role}) in {rules.name}", numbers)
    if roles.groups is not None:
        unused[roles.groups] = "--groups"
    return TrainingRows(
        table.select(features),
        target,
        classify,
        numbers,
        n_rows - len(numbers),
        unused,
        remarks,
        dialect,
        split,
    )


def check_column(column_names: Sequence[str], name: str, path: str) -> None:
    """Raise ValueError if a table has no column `name`."""
    if name not in column_names:
        raise ValueError(f"{path} has no column {name!r}; its columns are: {', '.join(column_names)}.")


def drop_missing_target(table: pyarrow.Table, target: str, path: str) -> tuple[pyarrow.Table, NDArray[Any]]:
    """Drop rows in which the target is missing; return the remaining rows and their numbers, from 1."""
    from pyarrow import compute, types

    if types.is_floating(table.column(target).type):
        row = compute.index(compute.is_inf(table.column(target)), True).as_py()
        if row >= 0:
            raise ValueError(
                f"Column {target!r} in {path} is infinite in row {show_row(row + 1)}, but the "
                "target must be finite. Correct such entries, or leave them empty to drop their rows."
            )
    has_target = compute.invert(compute.is_null(table.column(target), nan_is_null=True))
    kept = table.filter(has_target)
    if not kept.num_rows:
        raise ValueError(
            f"Column {target!r} in {path} has no values; the target must have a value in at least one row."
        )
    return kept, compute.indices_nonzero(has_target).to_numpy() + 1


def to_target(column: pyarrow.ChunkedArray, name: str, path: str) -> tuple[bool, NDArray[Any]]:
    """Whether the target is numeric, and its values as an array.

    Parameters
    ----------
    column : ChunkedArray
        The target, without missing values.
    name : str
        Name of the column.
    path : str
        Name of the file for error messages.
    """
    import numpy
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    has_dates = types.is_temporal(column.type) or (is_text(column) and are_dates(column))
    if has_dates or types.is_nested(column.type):
        raise ValueError(
            f"The target must be numeric, text or boolean; column {name!r} in {path} contains {column[0]}. "
            "Convert it to a number, such as the days since a fixed date."
        )
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return is_numeric(column), numpy.asarray(column.to_pylist())


def to_row_labels(column: pyarrow.ChunkedArray, name: str, numbers: NDArray[Any]) -> NDArray[Any]:
    """Groups or times of the rows as an array; raises ValueError if some are missing.

    Parameters
    ----------
    column : ChunkedArray
        One entry per row.
    name : str
        The column for error messages.
    numbers : (n,)
        Number of each row in the file.
    """
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_missing = column.is_null(nan_is_null=True).to_numpy()
    if is_missing.any():
        raise ValueError(
            f"Column {name} is missing in {is_missing.sum():,} of {len(numbers):,} rows, first in row "
            f"{show_row(numbers[is_missing.argmax()])}, so these rows cannot be assigned to training or "
            "validation. Fill in the entries or remove the rows."
        )
    return column.to_numpy()


def remark_on_commas(text: pyarrow.Table, table: pyarrow.Table, remarks: Remarks) -> None:
    """Add a remark on columns whose commas may be decimal marks: all numbers of the file are like 1,234.

    Parameters
    ----------
    text, table : pyarrow.Table
        The columns of a CSV file, and what they were read as.
    remarks : Remarks
        Receives the remarks.
    """
    from pyarrow import compute

    with_commas = []
    for name in text.column_names:
        if is_numeric(table.column(name)):
            entries = text.column(name).filter(compute.is_valid(table.column(name)))
            if compute.any(compute.match_substring_regex(entries, r"\.|,.*,")).as_py():
                return
            if compute.any(compute.match_substring(entries, ",")).as_py():
                with_commas.append(name)
    for name in with_commas:
        remarks.add(name, "commas read as thousands separators; if they are decimal marks, use --decimal ,")


def check_classes(target: NDArray[Any], name: str, path: str) -> None:
    """Raise ValueError if the target consists of fractions, or has too many classes, such as an identifier.

    Parameters
    ----------
    target : (n,)
        Labels.
    name : str
        Name of the column.
    path : str
        Name of the file for error messages.
    """
    if target.dtype.kind == "f" and (is_fraction := target % 1 != 0).any():
        raise ValueError(
            f"Column {name!r} in {path} contains numbers such as {target[is_fraction][0]}, which cannot be "
            f"classes. Omit --classify for regression, or use --category {name!r} if they are labels."
        )
    n_classes = len(set(target.tolist()))
    if n_classes > max(MAX_CLASSES, len(target) // 3):
        raise ValueError(
            f"Column {name!r} in {path} has {n_classes:,} different entries in {len(target):,} rows, such as "
            f"{target.tolist()[0]!r}, which are too many classes. If they are numbers, check how they are "
            "written (units, --decimal) and omit --classify and --category; otherwise choose another target."
        )


def remark_on_target(target: NDArray[Any], roles: Roles, classify: bool, remarks: Remarks) -> None:
    """Add a remark if classes may have been read as numbers, or numbers or names as classes.

    Parameters
    ----------
    target : (n,)
        Numbers or labels.
    roles : Roles
        What the columns are used for.
    classify : bool
        Whether the task is classification.
    remarks : Remarks
        Receives the remark.
    """
    import numpy

    values = numpy.unique(target)
    if classify and len(values) > max(20, len(target) // 2):
        remarks.add(
            roles.target, f"has {len(values):,} classes in {len(target):,} rows; is it the right column?"
        )
    few = 2 <= len(values) <= min(MAX_CLASS_VALUES, len(target) // 10)
    if not classify and roles.classify is None and few and (values == numpy.round(values)).all():
        shown = ", ".join(f"{value:g}" for value in values[:-1]) + f" and {values[-1]:g}"
        remarks.add(roles.target, f"has only the values {shown}; use --classify if they are classes")
