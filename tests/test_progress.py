import pytest

from stablemiss.progress import NullProgress, ProgressBar


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as it would be on a terminal of 100 columns."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


def test_a_bar_is_shown_on_standard_error_only(terminal, capsys):
    bar = ProgressBar()
    bar.start("fitting", total=2)
    bar.update(1, "loss 0.5")
    bar.start("more")
    bar.finish()
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("fitting", "loss 0.5", "more"):
        assert text in shown.err


def test_a_finished_bar_shows_nothing_more(terminal, capsys):
    bar = ProgressBar()
    bar.start("fitting")
    bar.finish()
    capsys.readouterr()
    bar.finish()
    bar.update(3, "late")
    assert capsys.readouterr() == ("", "")


def test_null_progress_shows_nothing(terminal, capsys):
    progress = NullProgress()
    progress.start("fitting", total=2)
    progress.update(1, "loss 0.5")
    progress.finish()
    assert capsys.readouterr() == ("", "")
