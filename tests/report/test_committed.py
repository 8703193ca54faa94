"""The committed page and docs are what the committed rows give, and the rows are of today's settings."""

from pathlib import Path

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.reproduce import current_rows
from stablemiss.experiments.store import Store
from stablemiss.report.markdown import BEGIN, END, reproduction_markdown
from stablemiss.report.reproduction import render_reproduction

ROOT = Path(__file__).parents[2]
STANDARD = BUDGETS["standard"]


@pytest.fixture(scope="module")
def rows():
    found, n_old = current_rows(Store(ROOT / "paper" / "results" / "standard.jsonl"), STANDARD)
    assert n_old == 0, "Run: stablemiss reproduce all"
    return found


def test_the_committed_page_is_what_the_rows_give(rows):
    page = (ROOT / "paper" / "report.html").read_text(encoding="utf-8")
    assert page == render_reproduction(rows, STANDARD), "Run: stablemiss report --docs docs/reproduction.md"


def test_the_committed_docs_are_what_the_rows_give(rows):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    block = page.split(BEGIN)[1].split(END)[0]
    assert block == f"\n{reproduction_markdown(rows, STANDARD)}\n"
