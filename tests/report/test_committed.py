"""The committed page and docs show what the committed records contain."""

import re
from pathlib import Path

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.reproduce import current_records
from stablemiss.report.changes import FIRST_RUN, changes_markdown
from stablemiss.report.markdown import reproduction_markdown, rules_markdown, split_page
from stablemiss.report.method_results import SHOWN, method_results
from stablemiss.report.page import render_page
from stablemiss.report.summary import summarise
from stablemiss.report.which_method import which_method_markdown
from stablemiss.results import Store

ROOT = Path(__file__).parents[2]
STANDARD = BUDGETS["standard"]


def read_records(budget):
    current, n_old = current_records(Store(ROOT / "paper" / "results" / f"{budget}.jsonl"), BUDGETS[budget])
    assert n_old == 0, f"Run: stablemiss reproduce all --budget {budget}"
    return current


@pytest.fixture(scope="module")
def records():
    return read_records("standard")


@pytest.fixture(scope="module")
def as_published():
    return read_records("as_published")


@pytest.fixture(scope="module")
def first_run():
    return Store(ROOT / "paper" / "results" / FIRST_RUN).records()


def visible_text(page):
    """The words and numbers of an HTML page, without plots and styles."""
    without_pictures = re.sub(r"<(svg|style|title)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"<[^>]+>", " ", without_pictures).split()


def test_the_committed_page_says_what_the_records_contain(records, as_published, first_run):
    committed = (ROOT / "paper" / "report.html").read_text(encoding="utf-8")
    fresh = render_page(records, STANDARD, as_published=as_published, first_run=first_run)
    assert visible_text(committed) == visible_text(fresh), "Run: stablemiss report"


def test_the_generated_part_of_the_docs_says_what_the_records_contain(records, as_published):
    _, block, _ = split_page(ROOT / "docs" / "reproduction.md", "reproduction")
    fresh = reproduction_markdown(summarise(records, STANDARD, as_published=as_published))
    assert block.split() == fresh.split(), "Run: stablemiss report --docs docs/reproduction.md"


def test_the_rules_in_the_docs_are_those_of_the_page():
    _, block, _ = split_page(ROOT / "docs" / "reproduction.md", "rules")
    assert block.strip() == rules_markdown(), "Run: stablemiss report --docs docs/reproduction.md"


def test_the_table_of_changes_has_the_numbers_of_both_runs(records, first_run):
    _, block, _ = split_page(ROOT / "docs" / "reproduction.md", "changes")
    assert block.strip() == changes_markdown(first_run, records), "Run: stablemiss report --docs …"


@pytest.mark.parametrize("name", SHOWN)
def test_the_results_of_a_method_have_the_numbers_of_the_records(records, name):
    _, block, _ = split_page(ROOT / "docs" / "methods" / f"{name}.md", "results")
    assert block.strip() == method_results(summarise(records, STANDARD), name), "Run: stablemiss report …"


def test_the_comparison_of_all_methods_has_the_numbers_of_the_records(records):
    _, block, _ = split_page(ROOT / "docs" / "which_method.md", "which method")
    assert block.strip() == which_method_markdown(summarise(records, STANDARD)), "Run: stablemiss report …"
