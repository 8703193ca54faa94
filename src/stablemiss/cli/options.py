"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.formats import Format
from stablemiss.cli.models import is_model
from stablemiss.cli.reading import ReadOptions

TABLE_HELP = "CSV or JSON lines (may be gzipped), Parquet, Feather or Excel; - for standard input."

# Heading of the options for reading files in the help texts.
READING = "Reading files"

Target = Annotated[str, typer.Option(help="Column to predict.", metavar="COLUMN")]
MethodName = Annotated[
    str | None,
    typer.Option(
        help="Method to fit; see: stablemiss methods. Default: anymask.", metavar="NAME", show_default=False
    ),
]
Params = Annotated[
    str | None,
    typer.Option(
        help="Hyper-parameters: JSON such as '{\"ridge\": 0.1}', or a JSON file as written by `stablemiss "
        "tune`, which also names the method.",
        metavar="JSON",
        show_default=False,
    ),
]
BudgetName = Annotated[
    str | None,
    typer.Option(
        help="Time for anymask: fast, default or best. Each takes several times as long as the one before.",
        metavar="NAME",
        show_default=False,
    ),
]
Classify = Annotated[
    bool,
    typer.Option("--classify", help="Classification. Default: regression if the target is numeric."),
]
Regress = Annotated[
    bool, typer.Option("--regress", help="Regression, even if the target seems to consist of classes.")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Do not use this column, for example an identifier. Can be repeated.",
        metavar="COLUMN",
        show_default=False,
    ),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="Treat this column as categorical even if it contains numbers or dates, for example a code. Can "
        "be repeated.",
        metavar="COLUMN",
        show_default=False,
    ),
]
NoDateFeatures = Annotated[
    bool,
    typer.Option(
        "--no-date-features",
        help="Do not turn dates into year, month, weekday and hour. Dates in text are then categories.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.", min=0)]

Separator = Annotated[
    str | None,
    typer.Option(
        help="Separator of CSV files, such as ';' or tab. Default: detected.",
        metavar="CHARACTER",
        rich_help_panel=READING,
        show_default=False,
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="Decimal mark of CSV files: . or ,  Default: detected.",
        metavar="CHARACTER",
        rich_help_panel=READING,
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Encoding of CSV files, such as cp1252. Default: detected.",
        metavar="NAME",
        rich_help_panel=READING,
        show_default=False,
    ),
]
FormatName = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Format of the table. Default: that of its extension, csv for -. Also the format of an output "
        "whose name does not show it.",
        rich_help_panel=READING,
        show_default=False,
    ),
]
MissingValue = Annotated[
    list[str] | None,
    typer.Option(
        help="Entry that means that a value is missing, in addition to NA, ? and similar ones. Can be "
        "repeated.",
        metavar="ENTRY",
        rich_help_panel=READING,
        show_default=False,
    ),
]
DaskAddress = Annotated[
    str | None,
    typer.Option(
        "--dask",
        help="Share the work among the workers of the Dask scheduler at this address, such as "
        "tcp://host:8786. They must be able to read and write the same folders.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def read_options(
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    file_format: Format | None,
    missing_value: list[str] | None,
) -> ReadOptions:
    """Check the options for reading files.

    Parameters
    ----------
    separator, decimal, encoding : str or None
        As in `ReadOptions`; the separator may be written as "tab".
    file_format : Format or None
        Format of the table; None means that its extension shows it.
    missing_value : list of str or None
        Further entries that mean "missing".

    Examples
    --------
    >>> read_options("tab", None, None, None, None).separator
    '\\t'
    """
    if separator in ("tab", "\\t"):
        separator = "\t"
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        raise ValueError(
            f"--separator must be a single ASCII character such as ';', or tab; got {separator!r}."
        )
    if decimal not in (None, ".", ","):
        raise ValueError(f"--decimal must be . or , ; got {decimal!r}.")
    if separator is not None and separator == decimal:
        raise ValueError(f"--separator and --decimal must differ; both are {separator!r}.")
    return ReadOptions(separator, decimal, encoding, file_format, tuple(missing_value or ()))


def check_only_parquet(options: ReadOptions, others: Mapping[str, object]) -> None:
    """Raise ValueError if an option was given that is not for folders of Parquet files.

    Parameters
    ----------
    options : ReadOptions
        Options for reading files; Parquet files need none.
    others : dict
        Name of an option → its value; None or an empty list if it was not given.
    """
    given = [name for name, value in others.items() if value]
    if options != ReadOptions():
        given.append("--separator, --decimal, --encoding, --format or --missing-value")
    if given:
        raise ValueError(
            f"{given[0]} is not available for folders of Parquet files and with --dask; omit it, or pass a "
            "single file."
        )


def choose_task(classify: bool, regress: bool) -> bool | None:
    """Combine --classify and --regress: whether to classify, or None if the type of the target decides.

    Examples
    --------
    >>> choose_task(False, True), choose_task(False, False)
    (False, None)
    """
    if classify and regress:
        raise ValueError("Use --classify or --regress, not both.")
    return classify if classify or regress else None


def check_model_file(path: Path, data: Path) -> None:
    """Raise ValueError if there is no model file at `path`, or if it is the table and `data` the model."""
    if not path.is_file():
        raise ValueError(
            f"There is no model file {path}; create one with: stablemiss fit DATA --target COLUMN."
        )
    if is_model(data) and not is_model(path):
        raise ValueError(f"{data} is a model and {path} is not: the model comes first, then the table.")
