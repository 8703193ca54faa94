import pytest

from stablemiss.methods import METHODS


def test_every_method_has_one_line_that_says_what_it_is(run):
    listed, _, last = run("methods").stdout.rstrip().rpartition("\n\n")
    lines = dict(line.split(maxsplit=1) for line in listed.splitlines())
    assert list(lines) == list(METHODS)
    for name, method in METHODS.items():
        assert lines[name] == method.__doc__.splitlines()[0]
    assert last == "Each predicts numbers and classes."


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_is_fits_on_a_line(name):
    line, blank = METHODS[name].__doc__.splitlines()[:2]
    assert 20 <= len(line) <= 100
    assert line.endswith(".")
    assert blank == ""
