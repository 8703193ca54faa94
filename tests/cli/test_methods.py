from stablemiss.methods import METHODS


def test_every_method_has_one_line_that_says_what_it_is(run):
    lines = dict(line.split(maxsplit=1) for line in run("methods").stdout.splitlines())
    assert list(lines) == list(METHODS)
    for name, method in METHODS.items():
        assert lines[name] == method.__doc__.splitlines()[0]
