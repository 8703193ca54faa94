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
BLOCK = r"```python\n(.*?)```"
MODULES = [module.name for module in pkgutil.walk_packages(stablemiss.__path__, "stablemiss.")]


@pytest.mark.parametrize(
    "page",
    [page if page.stem in FAST_PAGES else pytest.param(page, marks=pytest.mark.slow) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in re.findall(BLOCK, page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.slow
@pytest.mark.skipif("STABLEMISS_DATA" not in os.environ, reason="needs the house sales in STABLEMISS_DATA")
def test_the_code_blocks_of_the_readme_run_and_the_first_prints_the_output_shown(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    first, *others = re.findall(BLOCK, text, flags=re.DOTALL)
    shown = re.search(rf"{BLOCK}\n\n((?:    [^\n]*\n)+)", text, flags=re.DOTALL)[2]
    namespace: dict = {}
    exec(compile(first, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out.split()
    for block in others:
        exec(compile(block, "README.md", "exec"), namespace)
    expected = shown.split()
    assert len(printed) == len(expected)
    for actual_word, expected_word in zip(printed, expected, strict=True):
        try:
            # Sums are rounded differently on another processor, and then a tree may split differently.
            assert float(actual_word) == pytest.approx(float(expected_word), abs=0.05)
        except ValueError:
            assert actual_word == expected_word


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
