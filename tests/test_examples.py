"""All code examples run: the code blocks of README and docs, and the docstrings."""

import doctest
import importlib
import os
import pkgutil
import re
from pathlib import Path

import pytest

import stablemiss

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Examples of the other pages take a minute together.
FAST_PAGES = ("tutorial",)
# A code block, and the indented output after it, if any.
BLOCK_AND_OUTPUT = r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?"
# A number, and what follows it within a word.
NUMBER = r"([-+−]?\d[\d,]*\.?\d*)([%.,;:)]*)"
MODULES = [module.name for module in pkgutil.walk_packages(stablemiss.__path__, "stablemiss.")]


def run_blocks(path, capsys):
    """Run the code blocks of a page; where one is followed by its output, it must print that."""
    namespace: dict = {}
    for block, shown in re.findall(BLOCK_AND_OUTPUT, path.read_text(), flags=re.DOTALL):
        capsys.readouterr()
        exec(compile(block, str(path), "exec"), namespace)
        if shown:
            assert_same_output(capsys.readouterr().out, shown)


def to_float(text):
    return float(text.replace(",", "").replace("−", "-"))


def assert_same_output(printed, shown):
    """Words must be equal, numbers close: another processor rounds sums, and trees may split, differently."""
    expected = shown.split()
    # A page may show only the beginning of a long output.
    words = printed.split()[: len(expected)]
    assert len(words) == len(expected), printed
    for word, expected_word in zip(words, expected, strict=True):
        number = re.fullmatch(NUMBER, expected_word)
        if number is None:
            assert word == expected_word
        else:
            actual = re.fullmatch(NUMBER, word)
            assert actual is not None, printed
            assert actual[2] == number[2], printed
            assert to_float(actual[1]) == pytest.approx(to_float(number[1]), abs=0.05, rel=0.05), printed


@pytest.mark.parametrize(
    "page",
    [page if page.stem in FAST_PAGES else pytest.param(page, marks=pytest.mark.slow) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_blocks_run_and_print_the_output_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(page, capsys)


@pytest.mark.slow
@pytest.mark.skipif("STABLEMISS_DATA" not in os.environ, reason="needs the house sales in STABLEMISS_DATA")
def test_the_code_blocks_of_the_readme_run_and_print_the_output_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(ROOT / "README.md", capsys)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
