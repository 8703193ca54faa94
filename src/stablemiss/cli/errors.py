"""Prints errors and warnings as single lines on standard error, without a traceback."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

# Messages of the library mention Python parameters; the command line has flags instead.
FLAGS = {
    "allow_missing_columns=True": "--allow-missing-columns",
    'set on_unseen_missing="ignore"': "use --on-unseen-missing ignore",
    'on_unseen_missing="ignore"': "--on-unseen-missing ignore",
}


def with_flags(message: str) -> str:
    """Replace Python parameters in a message of the library by flags of the command line.

    Examples
    --------
    >>> with_flags("They may be left out with allow_missing_columns=True.")
    'They may be left out with --allow-missing-columns.'
    """
    for parameter, flag in FLAGS.items():
        message = message.replace(parameter, flag)
    return message


@contextmanager
def plain_errors() -> Iterator[None]:
    """Context manager that prints errors and warnings as one line each and exits with code 2 on errors.

    Errors that indicate a bug, such as ZeroDivisionError, keep their traceback.

    Examples
    --------
    >>> try:
    ...     with plain_errors():
    ...         raise ValueError("There is no column 'price'.")
    ... except typer.Exit as end:
    ...     end.exit_code
    2
    """
    shown: set[str] = set()

    def show(message: Warning | str, *args: object, **kwargs: object) -> None:
        # Identical warnings from several steps are shown once.
        if str(message) not in shown:
            shown.add(str(message))
            typer.echo(f"Warning: {with_flags(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except OSError as error:
            # Errors of the operating system have separate attributes for reason and file name.
            message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            raise _exit(message) from error
        except (ValueError, TypeError, ModuleNotFoundError, FloatingPointError) as error:
            raise _exit(str(error)) from error


def _exit(message: str) -> typer.Exit:
    typer.echo(f"Error: {with_flags(message)}", err=True)
    return typer.Exit(code=2)
