import warnings

import pytest
import typer

from stablemiss.cli.errors import plain_errors


def end_with(error):
    with plain_errors():
        raise error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("Bad value."), "Bad value."),
        (TypeError("Bad type."), "Bad type."),
        (ImportError("Not installed."), "Not installed."),
        (FileNotFoundError("The folder is absent."), "The folder is absent."),
        (OSError(28, "No space left on device", "a.csv"), "No space left on device: a.csv"),
    ],
)
def test_mistakes_become_one_sentence_and_exit_code_two(capsys, error, sentence):
    with pytest.raises(typer.Exit) as caught:
        end_with(error)
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == f"Error: {sentence}\n"


def test_other_errors_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        end_with(ZeroDivisionError())


def test_warnings_are_told_plainly_and_once(capsys):
    with plain_errors():
        for _ in range(2):
            warnings.warn("Column 'a' was never missing.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: Column 'a' was never missing.\n"
