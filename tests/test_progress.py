import pytest

from stablemiss.progress import NullProgress, ProgressBar, progress_line, terminal_progress


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


def test_the_share_that_is_done_and_the_time_left_are_shown_if_the_total_is_known(
    terminal, capsys, monkeypatch
):
    monkeypatch.setattr("rich.progress.Task.time_remaining", 90.2)
    bar = ProgressBar()
    bar.start("Step 2 of 5: boosted trees", total=4)
    bar.update(1)
    bar.finish()
    shown = capsys.readouterr().err
    for text in ("Step 2 of 5: boosted trees", "25%", "0:01:30 left"):
        assert text in shown


@pytest.mark.parametrize("width", [1, 10, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("share", [None, 0.0, 0.25, 1.0])
def test_a_line_fits_into_the_terminal_and_the_note_is_cut_first(width, share):
    left = None if share is None else 90.2
    line = progress_line("Step 2 of 5: boosted trees", share, 3.0, left, "loss " + "9" * 50, width)
    assert len(line) <= width
    if width >= 60:
        assert line.startswith("Step 2 of 5: boosted trees")
        assert "0:00:03" in line
        assert (share is None) == ("left" not in line)
        assert (share is None) == ("%" not in line)
    assert ("9" * 50 in line) == (width >= (100 if share is None else 200))


def test_square_brackets_are_no_markup(terminal, capsys):
    bar = ProgressBar()
    bar.start("trees [fast]", total=2)
    bar.update(1, "[red]")
    bar.finish()
    shown = capsys.readouterr().err
    assert "trees [fast]" in shown
    assert "[red]" in shown


def test_without_a_total_no_share_and_no_time_left_are_shown(terminal, capsys):
    bar = ProgressBar()
    bar.start("reading")
    bar.update(7, "7 rows")
    bar.finish()
    shown = capsys.readouterr().err
    assert "7 rows" in shown
    assert "%" not in shown
    assert "left" not in shown


def test_a_bar_is_only_shown_on_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert isinstance(terminal_progress(), NullProgress)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(terminal_progress(), ProgressBar)


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
