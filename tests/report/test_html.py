import base64
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stablemiss.report import html
from stablemiss.report.html import render_report, write_report


class Page(HTMLParser):
    """Tags with their attributes, and the text of each cell of the table of gaps."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.lines: list[list[str]] = []
        self.inside: list[str] = []
        self._in_gaps = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_gaps |= tag == "table" and dict(attrs).get("id") == "gaps"
        self.inside.append(tag)
        if self._in_gaps and tag == "tr":
            self.lines.append([])
        if self._in_gaps and tag in ("td", "th"):
            self.lines[-1].append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass
        self._in_gaps &= tag != "table"

    def handle_data(self, data):
        if self._in_gaps and {"td", "th"} & set(self.inside):
            marks = [tag for tag in ("b", "u") if tag in self.inside]
            self.lines[-1][-1] += "".join(f"<{tag}>" for tag in marks) + data.strip()


def test_the_table_holds_what_the_rows_hold_marked_as_in_the_paper(rows):
    assert Page(render_report(rows)).lines == [
        ["missing at test", "10%", "50%", "90%"],
        ["ols", "50*", "<u>60", "<u>80"],
        ["boosting", "<u>20*", "100", "220†"],
        ["em_mixture", "<b>1*", "<b>2", "<b>4"],
        ["linear", "10*", "30", "10"],
        ["constant", "400*", "300", "100"],
        ["Optimal, RMSE", "100", "200", "400"],
        ["constant, RMSE", "500", "500", "500"],
    ]


def test_the_page_needs_nothing_from_elsewhere(rows):
    """No script at all, and every address is inside the page."""
    text = render_report(rows)
    tags = Page(text).tags
    assert "script" not in {tag for tag, _ in tags}
    addresses = [
        value
        for _, attributes in tags
        for name, value in attributes.items()
        if name in ("href", "src", "xlink:href")
    ]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    assert [tag for tag, _ in tags].count("svg") == 1


def test_the_page_carries_its_rows(rows):
    link = next(attributes for tag, attributes in Page(render_report(rows)).tags if "download" in attributes)
    assert json.loads(base64.b64decode(link["href"].split(",")[1])) == rows


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</table>&amp;"]
)
def test_hostile_names_stay_text(rows, name):
    """Whatever a data set, mechanism or method is called, the page has the same elements."""
    hostile = [
        {
            **row,
            "dataset": name,
            "mechanism": name,
            "finished": name,
            "config": {name: name},
            "versions": {name: name},
        }
        for row in rows
    ]
    hostile = [{**row, "method": name} if row["method"] == "ols" else row for row in hostile]
    page = Page(render_report(hostile))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in Page(render_report(rows)).tags]
    assert page.lines[1][0] == name


def test_negative_gaps_and_empty_cells_are_shown(rows):
    odd = [
        {**row, "rmse": 90.0} if row["method"] == "ols" else row for row in rows if row["method"] != "linear"
    ]
    odd = [row for row in odd if (row["method"], row["test_level"]) != ("boosting", 0.5)]
    lines = Page(render_report(odd)).lines
    assert lines[1] == ["ols", "<b>−10*", "<b>−110", "<b>−310"]
    assert lines[2][2] == "–"


def test_a_report_that_fails_leaves_the_earlier_one(rows, tmp_path):
    path = tmp_path / "report.html"
    assert write_report(rows, path) == path
    before = path.read_bytes()
    with pytest.raises(KeyError):
        write_report([{**rows[0], "versions": {}}, {"method": "no row"}], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_without_jinja2_one_sentence_says_how_to_get_it(rows, monkeypatch):
    monkeypatch.setattr(html, "find_spec", lambda name: None if name == "jinja2" else object())
    with pytest.raises(
        ModuleNotFoundError, match=r'needs jinja2; install with: pip install "stablemiss\[report\]"'
    ):
        render_report(rows)


def test_views_load_neither_torch_nor_scikit_learn():
    """Also true while a page is rendered, not only at import."""
    script = (
        "import json, sys\n"
        "from stablemiss.report import render_report\n"
        "render_report(json.load(sys.stdin))\n"
        "print(sorted({'torch', 'sklearn', 'lightgbm', 'scipy'} & set(sys.modules)))"
    )
    row = {
        **dict.fromkeys(("dataset", "mechanism", "finished", "method"), "x"),
        **dict.fromkeys(
            ("train_level", "test_level", "optimal_rmse", "rmse", "n_rows", "n_test_rows", "seed"), 0.5
        ),
        **{"role": "method", "config": {}, "versions": {}, "fit_seconds": None},
    }
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps([row]), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_template_is_part_of_the_package():
    assert (Path(html.__file__).parent / "templates" / "report.html.j2").is_file()
