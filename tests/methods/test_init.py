"""METHODS is a read-only mapping that imports methods on access."""

import subprocess
import sys

import pytest

import stablemiss.methods
from stablemiss.methods import METHODS, Method


def test_names_are_those_of_the_classes_and_every_class_can_be_imported_from_the_package():
    for name, method in METHODS.items():
        assert issubclass(method, Method)
        assert method.name == name
        assert getattr(stablemiss.methods, method.__name__) is method
        assert method.__name__ in stablemiss.methods.__all__
        assert method.__name__ in dir(stablemiss.methods)
    assert len(METHODS) == len(list(METHODS))


def test_unknown_names_raise():
    assert "trees" not in METHODS
    assert METHODS.get("trees") is None
    with pytest.raises(KeyError, match="trees"):
        METHODS["trees"]
    with pytest.raises(AttributeError, match="Trees"):
        stablemiss.methods.Trees  # noqa: B018
    with pytest.raises(TypeError):
        METHODS["trees"] = Method


def test_importing_the_package_imports_no_method():
    code = "import sys, stablemiss.methods as m; print('anymask' in m.METHODS, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]
