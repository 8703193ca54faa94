"""What went wrong, in one sentence on standard error; no traceback for mistakes that the user can mend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

# The library's advice names parameters of Python; here they are flags.
FLAGS = {
    "allow_missing_columns=True": "--allow-missing-columns",
    'set on_unseen_missing="ignore"': "use --on-unseen-missing ignore",
}


def with_flags(sentence: str) -> str:
    """A sentence of the library, with the flags of the command line instead of parameters of Python.

    Examples
    --------
    >>> with_flags("They may be left out with allow_missing_columns=True.")
    'They may be left out with --allow-missing-columns.'
    """
    for parameter, flag in FLAGS.items():
        sentence = sentence.replace(parameter, flag)
    return sentence


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around a command's work: mistakes at the border end it with exit code 2, warnings are told plainly.

    Examples
    --------
    >>> try:
    ...     with plain_errors():
    ...         raise ValueError("There is no column 'price'.")
    ... except typer.Exit as end:
    ...     end.exit_code
    2
    """
    told: set[str] = set()

    def tell(message: Warning | str, *where: object, **more: object) -> None:
        # One sentence once, however many steps of the work came across it.
        if str(message) not in told:
            told.add(str(message))
            typer.echo(f"Warning: {with_flags(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        try:
            yield
        except OSError as error:
            # The system's own errors carry a number and the file's name apart; ours are sentences already.
            sentence = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            raise _end(sentence) from error
        except (ValueError, TypeError, ModuleNotFoundError, FloatingPointError) as error:
            raise _end(str(error)) from error


def _end(sentence: str) -> typer.Exit:
    typer.echo(f"Error: {with_flags(sentence)}", err=True)
    return typer.Exit(code=2)
