import pytest

from stablemiss.base.search_space import Choice, Range
from stablemiss.methods import METHODS


def test_a_range_holds_the_numbers_between_its_ends():
    assert 0.5 in Range(0.0, 1.0)
    assert 1 in Range(0.0, 1.0)
    assert 1.1 not in Range(0.0, 1.0)
    assert float("nan") not in Range(0.0, 1.0)
    for value in ("auto", None, True, (0.5,)):
        assert value not in Range(0.0, 1.0)


def test_a_range_with_whole_ends_holds_whole_numbers():
    assert Range(1, 5).is_whole
    assert not Range(1, 5.0).is_whole
    assert 3 in Range(1, 5)
    assert 2.5 not in Range(1, 5)


def test_a_choice_holds_its_values_of_any_kind():
    values = ("auto", None, 0.1, (32, 32))
    assert all(value in Choice(*values) for value in values)
    assert (32,) not in Choice(*values)


def test_lists_in_a_choice_and_asked_for_count_as_tuples():
    assert Choice([32], (32, 32)) == Choice((32,), [32, 32])
    assert [32, 32] in Choice((32,), (32, 32))
    assert [32] not in Choice((32, 32))


@pytest.mark.parametrize("make", [lambda: Range(2, 1), lambda: Range(0.0, 1.0, log=True), lambda: Choice()])
def test_what_holds_nothing_is_refused(make):
    with pytest.raises(ValueError, match=r"holds no numbers to search|at least one value"):
        make()


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_space_is_about_its_parameters_and_holds_their_defaults(name):
    """So that the default is a point of the search like any other."""
    defaults = METHODS[name]().get_params(deep=False)
    for parameter, where in METHODS[name].space.items():
        assert defaults[parameter] in where, parameter
