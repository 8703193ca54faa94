"""The committed page and docs show what the committed records contain."""

import re
from pathlib import Path

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.reproduce import current_records
from stablemiss.report.markdown import reproduction_markdown, split_page
from stablemiss.report.page import render_page
from stablemiss.report.summary import summarise
from stablemiss.results import Store

ROOT = Path(__file__).parents[2]
STANDARD = BUDGETS["standard"]
NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def records():
    current, n_old = current_records(Store(ROOT / "paper" / "results" / "standard.jsonl"), STANDARD)
    assert n_old == 0, "Run: stablemiss reproduce all"
    return current


def table_cells(page):
    """Numbers in the table cells of an HTML page, without plots and styles."""
    return [NUMBER.findall(re.sub(r"<[^>]+>", " ", cell)) for cell in re.findall(r"<td.*?</td>", page, re.S)]


def test_the_committed_page_has_the_numbers_of_the_records(records):
    committed = (ROOT / "paper" / "report.html").read_text(encoding="utf-8")
    assert table_cells(committed) == table_cells(render_page(records, STANDARD)), "Run: stablemiss report"


def test_the_generated_tables_of_the_docs_have_the_numbers_of_the_records(records):
    _, block, _ = split_page(ROOT / "docs" / "reproduction.md", "reproduction")
    fresh = reproduction_markdown(summarise(records, STANDARD))
    rows = [
        [NUMBER.findall(line) for line in text.splitlines() if line.startswith("|")]
        for text in (block, fresh)
    ]
    assert rows[0] == rows[1], "Run: stablemiss report --docs docs/reproduction.md"
