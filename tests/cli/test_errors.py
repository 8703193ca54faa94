import warnings

import pytest
import typer

from stablemiss.cli.errors import plain_errors


def raise_inside(error):
    with plain_errors():
        raise error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("Bad value."), "Bad value."),
        (TypeError("Bad type."), "Bad type."),
        (ModuleNotFoundError("Not installed."), "Not installed."),
        (FloatingPointError("Training diverged."), "Training diverged."),
        (FileNotFoundError("The folder is absent."), "The folder is absent."),
        (OSError(28, "No space left on device", "a.csv"), "No space left on device: a.csv"),
    ],
)
def test_errors_of_the_user_are_one_line_with_exit_code_2(capsys, error, message):
    with pytest.raises(typer.Exit) as caught:
        raise_inside(error)
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == f"Error: {message}\n"


@pytest.mark.parametrize("error", [ZeroDivisionError(), ImportError("cannot import name")])
def test_other_errors_keep_their_traceback(error):
    with pytest.raises(type(error)):
        raise_inside(error)


def test_python_parameters_are_replaced_by_flags(capsys):
    with plain_errors():
        warnings.warn('Or set on_unseen_missing="ignore" to accept this.', UserWarning, stacklevel=1)
    with pytest.raises(typer.Exit):
        raise_inside(ValueError("May be left out with allow_missing_columns=True; they count as missing."))
    assert capsys.readouterr().err == (
        "Warning: Or use --on-unseen-missing ignore to accept this.\n"
        "Error: May be left out with --allow-missing-columns; they count as missing.\n"
    )


def test_equal_warnings_are_shown_once(capsys):
    with plain_errors():
        for _ in range(2):
            warnings.warn("Column 'a' was never missing.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: Column 'a' was never missing.\n"
