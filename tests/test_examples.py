"""All code examples run: the code blocks of README and docs, and the docstrings."""

import doctest
import importlib
import os
import pkgutil
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stablemiss
from stablemiss.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
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
        if shown and not shown.lstrip().startswith("$ "):  # that would be a command
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


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run_and_print_the_output_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(page, capsys)


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    # The first block of Python writes the tables.
    exec(compile(re.findall(BLOCK_AND_OUTPUT, text, flags=re.DOTALL)[0][0], "tutorial", "exec"), {})
    shell = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    commands = re.findall(r"^\$ stablemiss (.*)\n((?:(?!\$ ).*\n?)*)", shell, flags=re.MULTILINE)
    assert len(commands) == 8
    for command, shown in commands:
        result = CliRunner().invoke(app, command.split(), env={"COLUMNS": "200"})
        assert result.exit_code == (1 if command.startswith("diagnose") else 0), result.output
        printed = iter(result.output.splitlines())
        for line in filter(None, (line.strip() for line in shown.splitlines())):
            # In the order of the page, which leaves lines out, usually where it has three dots.
            assert line == "..." or any(has_same_words(other, line) for other in printed), (
                line,
                result.output,
            )


def has_same_words(printed, shown):
    """Whether two lines have the same words, with numbers that are close unless they are seconds."""
    if "Fitted" in shown:
        return printed.partition(" in ")[0] == shown.partition(" in ")[0]
    try:
        assert_same_output(printed, shown)
    except AssertionError:
        return False
    return True


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
