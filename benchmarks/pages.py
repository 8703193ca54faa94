"""Tables that stand in pages: written where two marks say so, never by hand."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent


def fill(page: str, name: str, text: str) -> None:
    """Put `text` between the marks called `name` of a page, given from the root of the project."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    path = ROOT / page
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
