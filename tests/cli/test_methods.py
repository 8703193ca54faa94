import pytest

from stablemiss.methods import METHODS


def test_every_method_is_listed_with_the_first_line_of_its_docstring(run):
    listed, _, last_line = run("methods").stdout.rstrip().rpartition("\n\n")
    lines = dict(line.split(maxsplit=1) for line in listed.splitlines())
    assert list(lines) == list(METHODS)
    for name, method in METHODS.items():
        default = " (default)" if name == "anymask" else ""
        assert lines[name] == method.__doc__.splitlines()[0] + default
    assert "regression and classification" in last_line


@pytest.mark.parametrize("name", METHODS)
def test_the_first_line_of_the_docstring_of_a_method_is_short(name):
    line, blank = METHODS[name].__doc__.splitlines()[:2]
    assert 20 <= len(line) <= 100
    assert line.endswith(".")
    assert blank == ""
