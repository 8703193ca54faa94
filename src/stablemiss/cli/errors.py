"""Prints errors and warnings as single lines on standard error, without a traceback."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from stablemiss.cli.interrupts import EXIT_CODE, NOTHING_WRITTEN, interruption
from stablemiss.text import RowError, count

# Messages of the library mention Python parameters; the command line has flags. Pattern → replacement.
FLAGS = {
    r"(set|pass) (?=on_|allow_missing_columns=True)": "use ",
    r"set date_features=True": "omit --no-date-features",
    r"date_features=False": "--no-date-features",
    r"allow_missing_columns=True": "--allow-missing-columns",
    r'on_unseen_missing="(\w+)"': r"--on-unseen-missing \1",
    r'on_out_of_range="(\w+)"': r"--on-out-of-range \1",
    r"Pass a space such as .*, or choose another method": "Choose another method with --method",
    r" \((in pandas: to_numeric|pandas\.to_numeric)[^)]*\)": "",
    r", for example with pandas\.to_datetime,": "",
    r"method must be (.*), or a Method such as [^;]*;": r"--method must be \1;",
    r"^(groups|time) must": r"--\1 must",
    r"^(mechanism|level)s must be (.*?)(, or map names to [^;]*|, such as [^;]*)?;": r"--\1 must be \2;",
    r"Leave (groups|time) out": r"Omit --\1",
    r"Pass them as X_train and y_train": "Give them with --train",
    r"keep_training_rows=True": "--keep-training-rows",
    r"^X_train must be": "--train must be",
    r"^y_train or sample_weight differs from the targets and weights": "Targets in --train differ from those",
    r"^X_train differs from": "--train differs from",
    r"columns of X": "columns of the table",
    r"\b(that|when|but|rows of) \w+(Regressor|Classifier)\b": r"\1 the model",
    r"^\w+(Regressor|Classifier) needs": "The model needs",
}
# Exit code of a program whose standard output was closed by the program that reads it.
BROKEN_PIPE_EXIT_CODE = 141


def with_flags(message: str) -> str:
    """Replace Python parameters in a message of the library by flags of the command line.

    Examples
    --------
    >>> with_flags("They may be left out with allow_missing_columns=True.")
    'They may be left out with --allow-missing-columns.'
    """
    for pattern, flag in FLAGS.items():
        message = re.sub(pattern, flag, message)
    return message


def show_row(number: int) -> str:
    """Number of a row in a message.

    Examples
    --------
    >>> show_row(55001)
    '55,001 (the first row is row 1)'
    """
    return f"{number:,} (the first row is row 1)"


@contextmanager
def rows_of_file(number_of: Callable[[int], int]) -> Iterator[None]:
    """Context manager in which errors about a row name its number in the file.

    Parameters
    ----------
    number_of : callable
        From the position of a row in a table, counted from 0, to its number in the file, counted from 1.
    """
    try:
        yield
    except RowError as error:
        raise ValueError(error.with_row(show_row(number_of(error.row)))) from error


class Warnings:
    """Shows each warning once, on standard error.

    Attributes
    ----------
    shown : list of str
        The warnings so far.
    """

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._is_batch = False
        # Kinds of warnings that were shown for earlier batches and for the current one.
        self._kinds: set[type[Warning]] = set()
        self._batch_kinds: set[type[Warning]] = set()
        self._has_more = False
        self._n_more = 0

    def show(self, message: Warning | str, category: type[Warning], *args: object, **kwargs: object) -> None:
        """Show a warning; replaces `warnings.showwarning`."""
        if self._is_batch and category in self._kinds:
            self._has_more = True
            return
        text = with_flags(str(message))
        # Identical warnings from several steps are shown once.
        if text in self.shown:
            return
        self._batch_kinds.add(category)
        self._print(text)

    @contextmanager
    def of_batch(self) -> Iterator[None]:
        """Context manager for the prediction of a batch of rows.

        Warnings of a kind that was shown for an earlier batch are counted instead of shown, because they
        differ only in what rows they are about.
        """
        self._is_batch, self._has_more, self._batch_kinds = True, False, set()
        yield
        self._is_batch = False
        self._kinds |= self._batch_kinds
        self._n_more += self._has_more

    def finish_batches(self) -> None:
        """Say how many batches had warnings that were not shown."""
        if self._n_more:
            self._print(
                "These warnings are about the first rows in which they occur; "
                f"{count(self._n_more, 'later part')} of the table had similar ones."
            )

    def _print(self, text: str) -> None:
        self.shown.append(text)
        typer.echo(f"Warning: {text}", err=True)


@contextmanager
def plain_errors() -> Iterator[Warnings]:
    """Context manager that prints errors and warnings as one line each, and handles Ctrl-C.

    It exits with code 2 on errors and with code 130 on Ctrl-C. Errors that indicate a bug, such as
    ZeroDivisionError, keep their traceback. It yields the warnings.

    Examples
    --------
    >>> try:
    ...     with plain_errors():
    ...         raise ValueError("There is no column 'price'.")
    ... except typer.Exit as end:
    ...     end.exit_code
    2
    """
    shown = Warnings()
    interruption.message, interruption.is_reported = NOTHING_WRITTEN, False
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = shown.show
        try:
            yield shown
        except KeyboardInterrupt as error:
            typer.echo(interruption.text(), err=True)
            raise typer.Exit(EXIT_CODE) from error
        except BrokenPipeError as error:
            # The reader of standard output has ended, such as `head`. Nothing more may be flushed to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from error
        except OSError as error:
            # Errors of the operating system have separate attributes for reason and file name.
            message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            raise _exit(message) from error
        except (ValueError, TypeError, ModuleNotFoundError, FloatingPointError) as error:
            raise _exit(str(error)) from error


def _exit(message: str) -> typer.Exit:
    typer.echo(f"Error: {with_flags(message)}", err=True)
    return typer.Exit(code=2)
