"""File formats of tables, and checks of the files named on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from stablemiss.writing import check_can_write


class Format(StrEnum):
    """File format of a table."""

    csv = "csv"
    parquet = "parquet"
    feather = "feather"
    jsonl = "jsonl"
    excel = "excel"


# Stands for standard input or output.
STANDARD = Path("-")
EXTENSIONS = {
    ".csv": Format.csv,
    ".tsv": Format.csv,
    ".tab": Format.csv,
    ".txt": Format.csv,
    ".csv.gz": Format.csv,
    ".tsv.gz": Format.csv,
    ".txt.gz": Format.csv,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
    ".feather": Format.feather,
    ".arrow": Format.feather,
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".json": Format.jsonl,
    ".jsonl.gz": Format.jsonl,
    ".ndjson.gz": Format.jsonl,
    ".json.gz": Format.jsonl,
    ".xlsx": Format.excel,
    ".xlsm": Format.excel,
}
NAMES = {
    Format.csv: "CSV",
    Format.parquet: "Parquet",
    Format.feather: "Feather",
    Format.jsonl: "JSON lines",
    Format.excel: "Excel",
}


def format_of(path: Path, default: Format | None = None) -> Format:
    """Format of a file by its extension.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input and output, which are CSV by default.
    default : Format, default=None
        Format of "-" and of files with an unknown extension.

    Examples
    --------
    >>> str(format_of(Path("Houses.CSV.gz"))), str(format_of(STANDARD, Format.jsonl))
    ('csv', 'jsonl')
    """
    for extension, name in EXTENSIONS.items():
        if path.name.lower().endswith(extension):
            return name
    if default is not None:
        return default
    if path == STANDARD:
        return Format.csv
    raise ValueError(
        f"The format of {path} is not known; its name must end in {', '.join(EXTENSIONS)}. For a file with "
        f"another name, give the format with --format, such as --format {Format.csv}."
    )


def check_readable(path: Path, given: Format | None = None) -> None:
    """Raise an error if `path` is not a table that can be read. Call it before slow imports.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input.
    given : Format, default=None
        Its format; None means that the extension shows it.

    See Also
    --------
    check_writable : The check for an output file.
    """
    if path != STANDARD:
        if path.is_dir():
            raise ValueError(f"{path} is a folder; pass the name of a file.")
        if not path.exists():
            raise ValueError(f"There is no file {path}.")
    _check_installed(given or format_of(path))


def check_writable(path: Path, default: Format | None, inputs: Mapping[str, Path | None]) -> None:
    """Raise an error if no table can be written to `path`. Call it before a long computation.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard output.
    default : Format or None
        As in `format_of`.
    inputs : dict
        As in `check_not_input`.

    See Also
    --------
    check_readable : The check for an input file.
    """
    _check_installed(format_of(path, default))
    if path.name.lower().endswith((".json", ".json.gz")):
        raise ValueError(
            f"--output {path} would contain JSON lines, one object per row, which is not valid JSON; choose "
            "a name that ends in .jsonl."
        )
    if path != STANDARD:
        check_can_write(path)
        check_not_input("--output", path, inputs)


def check_not_input(option: str, path: Path, inputs: Mapping[str, Path | None]) -> None:
    """Raise ValueError if an output is one of the inputs, which it would overwrite.

    Symbolic links, hard links, different spellings of the same file and redirections of standard input are
    recognised.

    Parameters
    ----------
    option : str
        The option that names the output, for the error message.
    path : Path
        File to write.
    inputs : dict
        What each input is, such as "the data" → its path, or "-" for standard input. None and files that do
        not exist are skipped.
    """
    for name, source in inputs.items():
        if source is not None and path.exists() and _is_same_file(source, path):
            raise ValueError(
                f"{option} {path} is the same file as {name}, {show_path(source)}, which would be "
                f"overwritten. Choose another file with {option}."
            )


def show_path(path: Path, is_output: bool = False) -> str:
    """The name of a file for messages: "-" becomes "standard input" or "standard output".

    Parameters
    ----------
    path : Path
        File name, or "-".
    is_output : bool, default=False
        Whether "-" means standard output.

    Examples
    --------
    >>> show_path(STANDARD), show_path(Path("a.csv"))
    ('standard input', 'a.csv')
    """
    return ("standard output" if is_output else "standard input") if path == STANDARD else str(path)


def _is_same_file(source: Path, path: Path) -> bool:
    if source == STANDARD:
        return os.path.samestat(os.fstat(0), path.stat())
    return source.exists() and os.path.samefile(source, path)


def _check_installed(name: Format) -> None:
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Reading and writing files needs pyarrow; install with: pip install "stablemiss[files]".'
        )
    if name == Format.excel and find_spec("openpyxl") is None:
        raise ModuleNotFoundError('Excel files need openpyxl; install with: pip install "stablemiss[excel]".')
