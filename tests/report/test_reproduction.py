import html
import json
import random
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.report.comparison import instances_of, title_of
from stablemiss.report.reproduction import (
    render_reproduction,
    summarise_reproduction,
    write_reproduction,
)

QUICK = BUDGETS["quick"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """Tags with their attributes, and the lines of the table in the section of Table 1."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.lines: list[list[str]] = []
        self._section = ""
        self._in_cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs).get("id") or ""
        if self._section == "table1":
            if tag == "tr":
                self.lines.append([])
            if tag in ("td", "th"):
                self.lines[-1].append("")
                self._in_cell = True
            if self._in_cell and tag in ("b", "u", "span", "small"):
                self.lines[-1][-1] += {"b": "<b>", "u": "<u>", "span": " / ", "small": ""}[tag]

    def handle_endtag(self, tag):
        self._in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        if self._in_cell:
            self.lines[-1][-1] += data


def test_the_table_is_marked_and_has_the_published_beneath(stored):
    lines = Page(render_reproduction(stored, QUICK)).lines
    assert lines[0] == ["tested at", "10%", "50%", "90%"]
    assert [
        "NeuMiss",
        "<b>40 / 40.0% / <u>714 78.9%",
        "<u>40* / 20.0% / <u>293 22.1%",
        "<u>120† / 30.0% / <u>680† 39.9%",
    ] in lines
    assert [
        "StableMiss",
        "<u>50 / 50.0% / <b>431 47.6%",
        "<b>30* / 15.0% / <b>283 21.4%",
        "<b>50 / 12.5% / <b>468† 27.4%",
    ] in lines
    assert ["OLS", "<b>30 / 30.0%", "<u>60* / 30.0%", "<u>80 / 20.0%"] in lines
    assert ["EM mixture", "–", "–", "–"] in lines
    assert ["linear", "1 / 1.0%", "1* / 0.5%", "1 / 0.2%"] in lines
    assert ["Optimal, RMSE", "100 / 905", "200 / 1324", "400 / 1706"] in lines


def at_standard(rows):
    return [{**row, "budget": "standard", "key": row["key"].replace("quick", "standard")} for row in rows]


def test_the_spread_over_instances_is_shown(again):
    lines = Page(render_reproduction(at_standard(again), BUDGETS["standard"])).lines
    line = next(line for line in lines if line[0] == "OLS")
    assert [cell for cell in line if cell != "–"] == [
        "OLS",
        "<b>35 ±7 / 35.0%",
        "<u>65* ±7 / 32.5%",
        "<u>85 ±7 / 21.3%",
    ]


def test_a_table_takes_its_own_instances_alone(again):
    """Another table may have run more instances of a fit; at this budget every table has one."""
    found = summarise_reproduction(again, QUICK)["comparisons"]
    assert {tuple(column) for one in found for column in one["instances"]} <= {(0,), ()}
    assert {instances_of(one) for one in found} == {"1"}


def test_failures_are_shown_as_text(stored):
    page = render_reproduction(stored, QUICK)
    assert "Failed: MIWAE, instance 0: ValueError: &lt;b&gt;no&lt;/b&gt; loss" in page


def test_the_same_rows_in_any_order_give_the_same_bytes(stored, tmp_path):
    first = write_reproduction(stored, QUICK, tmp_path / "a.html").read_bytes()
    shuffled = random.Random(0).sample(stored, len(stored))
    assert write_reproduction(shuffled, QUICK, tmp_path / "a.html").read_bytes() == first


def test_rows_of_other_budgets_and_no_rows_at_all(stored):
    other = [{**row, "budget": "standard"} for row in stored]
    assert render_reproduction([*stored, *other], QUICK) == render_reproduction(stored, QUICK)
    with pytest.raises(ValueError, match="make some with: stablemiss reproduce table1 --budget quick"):
        render_reproduction(other, QUICK)


def test_training_and_time_are_told_as_they_were(everything):
    slow = [{**everything[0], "fit_seconds": 1000.0}, *everything[1:]]
    settings = dict(summarise_reproduction(slow, BUDGETS["standard"])["settings"])
    assert settings["Training"].startswith("at most 100 epochs: AnyMask")
    assert settings["Training"].endswith("; no search")
    who = title_of(everything[0]["label"])
    n = len(everything) - 3
    assert settings["Time"].endswith(f"within 240 s, and none is cut off; 1 of {n} took longer ({who})")


def test_pictures_settings_times_and_configurations_are_there(stored):
    summary = summarise_reproduction(stored, QUICK)
    assert summary["patterns"] == {"MAR": ["10", "11"]}
    settings = dict(summary["settings"])
    assert (
        settings["Data"] == "gaussian_mix: 1,000 rows of 12 columns to train, 500 rows to test (instances: 1)"
    )
    assert settings["Last row finished"] == "2025-01-02T00:00:00+00:00"
    assert settings["Versions"] == "python 3.11.7"
    assert {line["label"] for line in summary["times"]} == {*summary_labels(stored)} - {"miwae"}
    assert {
        "label": "ols",
        "config": '{"class": "ols", "hidden": [128, 128]}',
        "datasets": "gaussian_mix",
    } in (summary["configurations"])


def summary_labels(rows):
    return [row["label"] for row in rows if "label" in row]


def test_the_page_needs_nothing_from_elsewhere(stored):
    text = render_reproduction(stored, QUICK)
    tags = Page(text).tags
    assert "script" not in {tag for tag, _ in tags}
    names = ("href", "src", "xlink:href")
    addresses = [value for _, found in tags for name, value in found.items() if name in names]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\((?!#)|@import", text)


def test_views_load_neither_torch_nor_scikit_learn(stored, tmp_path):
    """Also true while the page is rendered, not only at import."""
    (tmp_path / "rows.json").write_text(json.dumps(stored))
    script = (
        "import json, sys\n"
        "from stablemiss.experiments.budgets import BUDGETS\n"
        "from stablemiss.report.markdown import reproduction_markdown\n"
        "from stablemiss.report.reproduction import render_reproduction\n"
        "rows = json.load(open('rows.json'))\n"
        "render_reproduction(rows, BUDGETS['quick']), reproduction_markdown(rows, BUDGETS['quick'])\n"
        "print(sorted({'torch', 'sklearn', 'lightgbm'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium to show the page in.")
def test_a_phone_shows_the_page_without_scrolling_it_sideways(everything, tmp_path):
    """At 390 px only boxes around tables scroll; the browser has nothing to complain about."""
    first, *others = everything
    rows = [{**first, "error": "x" * 500, "scores": []}, *others]
    page = render_reproduction(rows, BUDGETS["standard"]).replace("<details>", "<details open>")
    assert all(f'<section id="{name}">' in page for name in (*EXHIBITS, "overview", "patterns"))
    # A window narrower than 500 px is not to be had; a frame is.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<!doctype html><meta charset="utf-8"><iframe id="page" width="390" height="800" '
        f'srcdoc="{html.escape(page)}"></iframe><pre id="found"></pre><script>onload = () => {{\n'
        "const root = document.getElementById('page').contentDocument.documentElement;\n"
        "const boxes = [...root.querySelectorAll('.scroll')];\n"
        "document.getElementById('found').textContent = JSON.stringify({\n"
        "page: root.scrollWidth, seen: root.clientWidth,\n"
        "scrolling: boxes.filter(box => box.scrollWidth > box.clientWidth).length});}</script>",
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', done.stdout).group(1))
    assert found["page"] <= found["seen"] <= 390
    assert found["scrolling"]
    assert "CONSOLE" not in done.stderr
