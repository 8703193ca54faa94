"""Search spaces of hyper-parameters."""

import pytest

from stablemiss.base.search_space import Choice, Range
from stablemiss.methods import METHODS


def test_a_range_contains_the_numbers_between_its_bounds():
    assert 0.5 in Range(0.0, 1.0)
    assert 1 in Range(0.0, 1.0)
    assert 1.1 not in Range(0.0, 1.0)
    assert float("nan") not in Range(0.0, 1.0)
    for value in ("auto", None, True, (0.5,)):
        assert value not in Range(0.0, 1.0)


def test_a_range_with_integer_bounds_contains_integers():
    assert Range(1, 5).is_integer
    assert not Range(1, 5.0).is_integer
    assert 3 in Range(1, 5)
    assert 2.5 not in Range(1, 5)


def test_a_choice_contains_its_values_of_any_type():
    values = ("auto", None, 0.1, (32, 32))
    assert all(value in Choice(*values) for value in values)
    assert (32,) not in Choice(*values)


def test_lists_are_equal_to_tuples():
    assert Choice([32], (32, 32)) == Choice((32,), [32, 32])
    assert [32, 32] in Choice((32,), (32, 32))
    assert [32] not in Choice((32, 32))


@pytest.mark.parametrize("make", [lambda: Range(2, 1), lambda: Range(0.0, 1.0, log=True), lambda: Choice()])
def test_empty_spaces_raise(make):
    with pytest.raises(ValueError, match=r"low must not exceed high|at least one value"):
        make()


@pytest.mark.parametrize("name", METHODS)
def test_a_search_space_names_parameters_of_its_method_and_contains_their_defaults(name):
    """The search can then return the defaults."""
    defaults = METHODS[name]().get_params(deep=False)
    for parameter, values in METHODS[name].space.items():
        assert defaults[parameter] in values, parameter
