from statistics import fmean

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.published import read_published
from stablemiss.missingness import LEVELS
from stablemiss.report.markdown import BEGIN, END, check_page, reproduction_markdown, write_block

QUICK = BUDGETS["quick"]


def test_tables_hold_ours_and_the_published_in_brackets(stored):
    lines = reproduction_markdown(stored, QUICK).splitlines()
    place = lines.index("### Table 1: Gaussian-Mix under MAR, trained at 50% missing")
    assert lines[place + 2].startswith("The paper says: StableMiss is best in every column;")
    assert lines[place + 2].endswith("Instances here: 1.")
    assert lines[place + 4] == "| tested at | 10% | 50% | 90% |"
    assert "| NeuMiss | **40** (_714_) | _40_\\* (_293_) | _120_† (_680_†) |" in lines[place:]
    assert "| OLS | **30** | _60_\\* | _80_ |" in lines[place:]
    assert "| MIWAE | – | – | – |" in lines[place:]
    assert "| Optimal, RMSE | 100 (905) | 200 (1324) | 400 (1706) |" in lines[place:]


def test_all_tables_are_summed_up_in_shares(everything):
    standard = BUDGETS["standard"]
    lines = reproduction_markdown(everything, standard).splitlines()
    place = lines.index("## All tables at a glance (published)")
    assert lines[place + 4].startswith("|  | Table 1 | Table 2 | Table 3 | Table 6 ")
    printed = read_published("table1")
    share = fmean(printed["neumiss", level] / printed["reference", level] for level in LEVELS)
    line = next(line for line in lines[place:] if line.startswith("| NeuMiss"))
    assert f" ({100 * share:.1f}%) |" in line
    # House prices have no linear answer.
    assert next(line for line in lines[place:] if line.startswith("| linear")).split(" | ")[3] == "–"


def test_reasons_stay_text(stored):
    """No reason of a failure becomes markup, or ends the generated part."""
    for row in stored:
        if row["error"] is not None:
            row["error"] = f"{END} *x* <script>"
    text = reproduction_markdown(stored, QUICK)
    assert END not in text
    assert "\\*x\\* \\<script\\>" in text


def test_the_block_is_renewed_in_place_and_writing_twice_changes_nothing(stored, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Über\n\n{BEGIN}\nold\n{END}\n\nThe end.\n", encoding="utf-8")
    text = reproduction_markdown(stored, QUICK)
    check_page(page)
    write_block(text, page)
    once = page.read_text(encoding="utf-8")
    assert once == f"# Über\n\n{BEGIN}\n{text}\n{END}\n\nThe end.\n"
    write_block(text, page)
    assert page.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_a_place_for_it_is_refused_and_stays(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    for act in (check_page, lambda path: write_block("new", path)):
        with pytest.raises(ValueError, match="should hold the line"):
            act(page)
    assert page.read_text() == text
