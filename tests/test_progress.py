from stablemiss.progress import Bar, Silence


def test_a_bar_shows_on_standard_error_and_not_on_standard_output(capsys):
    bar = Bar()
    bar.start("fitting", total=2)
    bar.update(1, "loss 0.5")
    bar.start("more")
    bar.finish()
    bar.finish()
    bar.update(3)
    assert capsys.readouterr().out == ""


def test_silence_says_nothing(capsys):
    progress = Silence()
    progress.start("fitting", total=2)
    progress.update(1, "loss 0.5")
    progress.finish()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == ""
