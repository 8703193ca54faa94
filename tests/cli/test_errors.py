import re
import warnings

import numpy as np
import pandas as pd
import pyarrow
import pytest
import typer

from stablemiss import MissingRegressor, UnseenMissingWarning
from stablemiss.cli.errors import plain_errors, with_flags
from stablemiss.cli.interrupts import EXIT_CODE, NOTHING_WRITTEN, interruption


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


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('or set on_out_of_range="missing" to', "or use --on-out-of-range missing to"),
        ('Set on_unseen_missing="warn".', "Set --on-unseen-missing warn."),
        ("or pass allow_missing_columns=True, so", "or use --allow-missing-columns, so"),
        (
            "with date_features=False, or set date_features=True.",
            "with --no-date-features, or omit --no-date-features.",
        ),
        ("Convert text to dates (in pandas: to_numeric, and so on), or", "Convert text to dates, or"),
        ("pass groups to fit", "pass groups to fit"),
    ],
)
def test_every_parameter_that_has_a_flag_is_replaced(message, expected):
    assert with_flags(message) == expected


def test_equal_warnings_are_shown_once(capsys):
    with plain_errors():
        for _ in range(2):
            warnings.warn("Column 'a' was never missing.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: Column 'a' was never missing.\n"


def test_warnings_of_the_same_kind_are_shown_for_the_first_batch_and_counted_for_others(capsys):
    with plain_errors() as shown:
        for batch in range(5):
            with shown.of_batch():
                for column in "ab":
                    warnings.warn(f"{batch} rows of {column}.", UserWarning, stacklevel=1)
        shown.finish_batches()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["Warning: 0 rows of a.", "Warning: 0 rows of b."]
    assert len(lines) == 3
    assert "4 later parts" in lines[2]
    assert len(shown.shown) == 3


def test_identical_warnings_of_later_batches_are_counted(capsys):
    with plain_errors() as shown:
        for _ in range(2):
            with shown.of_batch():
                for _ in range(2):
                    warnings.warn("-999 in 5,000 rows.", UserWarning, stacklevel=1)
        shown.finish_batches()
    first, last = capsys.readouterr().err.splitlines()
    assert first == "Warning: -999 in 5,000 rows."
    assert "1 later part of the table" in last


def test_other_kinds_of_warnings_are_shown_in_later_batches(capsys):
    with plain_errors() as shown:
        for kind in (UserWarning, UnseenMissingWarning):
            with shown.of_batch():
                warnings.warn(f"{kind.__name__}.", kind, stacklevel=1)
        shown.finish_batches()
    assert capsys.readouterr().err == "Warning: UserWarning.\nWarning: UnseenMissingWarning.\n"


def test_an_interrupt_prints_one_sentence(capsys):
    with pytest.raises(typer.Exit) as caught:
        raise_inside(KeyboardInterrupt())
    assert caught.value.exit_code == EXIT_CODE
    assert capsys.readouterr().err == f"{NOTHING_WRITTEN}\n"


def test_the_sentence_of_an_interrupt_can_say_what_was_written(capsys):
    def write_half():
        with plain_errors():
            interruption.message = "Interrupted; half of it was written."
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit):
        write_half()
    assert capsys.readouterr().err == "Interrupted; half of it was written.\n"
    with pytest.raises(typer.Exit):
        raise_inside(KeyboardInterrupt())
    assert capsys.readouterr().err == f"{NOTHING_WRITTEN}\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda model, table: model.predict(table.rename_columns(["size", "sort"])),
        lambda model, table: model.set_params(on_unseen_missing="raise").predict(
            table.set_column(1, "kind", pyarrow.array(["castle"] * table.num_rows))
        ),
        lambda model, table: model.set_params(method="olz").fit(table, np.arange(300.0)),
        lambda model, table: model.fit(table, np.arange(300.0), time=["soon"] * 300),
        lambda model, table: model.fit(table, np.arange(300.0), groups=["a"] * 300),
        lambda model, table: model.fit(table.slice(0, 1), [1.0]),
        lambda model, table: model.fit([[1, "a"], [pd.Timestamp(0), "b"], ["?", "c"]], [1.0, 2.0, 3.0]),
        lambda model, table: model.fit([[1, "a"], ["x", "b"], [2, "c"]], [1.0, 2.0, 3.0]),
    ],
)
def test_errors_of_the_estimators_do_not_mention_python(call, table):
    table = table.select(["size", "kind"])
    model = MissingRegressor("ols").fit(table, np.arange(300.0))
    with pytest.raises(ValueError) as caught:
        call(model, table)
    text = with_flags(str(caught.value))
    assert not re.search(r"\bX\b|Regressor|pandas|=|OLS|^(time|groups|method)\b|Leave", text), text
