"""Pages that are made from the source when the site is built: API reference, deviations, changelog."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_origin

from docutils import nodes

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "stablemiss"
# Public modules, and what they are for. Every name in their `__all__` gets a page.
MODULES = {
    "stablemiss": "Estimators, diagnosis and stress test",
    "stablemiss.methods": "Methods, for `MissingRegressor(method=…)`",
    "stablemiss.missingness": "Missingness mechanisms",
    "stablemiss.datasets": "Data sets and synthetic populations",
    "stablemiss.architectures": "Networks for images and sensors",
    "stablemiss.evaluation": "Scores under many mechanisms",
    "stablemiss.diagnostics": "Shift, and the effect of row weights",
    "stablemiss.tuning": "Hyper-parameter search",
    "stablemiss.decorrelation": "Row weights that decorrelate features and mask",
}
MARK = re.compile(r"^ *# (DEVIATION|PAPER): (.*(?:\n *# (?!DEVIATION:|PAPER:).*)*)", re.MULTILINE)


class Mark(NamedTuple):
    """A place where the code follows or leaves a paper."""

    path: str  # relative to the package
    line: int
    kind: str  # "DEVIATION" or "PAPER"
    text: str


def find_marks(source: Path = SOURCE) -> list[Mark]:
    """All comments `# DEVIATION: …` and `# PAPER: …`, by file and line."""
    marks = []
    for path in sorted(source.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        for match in MARK.finditer(code):
            text = re.sub(r"\n *# ", " ", match[2]).strip()
            line = code.count("\n", 0, match.start(1)) + 1
            marks.append(Mark(path.relative_to(source).as_posix(), line, match[1], text))
    return marks


def public_names(module: str) -> list[str]:
    """Names that a module exports; classes and functions defined in it if it has no `__all__`."""
    imported = import_module(module)
    names = getattr(imported, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(imported).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module
        ]
    return sorted(names, key=str.lower)


def documented_names(module: str) -> list[str]:
    """The public names without type aliases, which have no docstring."""
    return [name for name in public_names(module) if not get_origin(getattr(import_module(module), name))]


def mend_docstring(app: Any, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Write what is plain text in a docstring so that reStructuredText reads it as such."""
    for i, line in enumerate(lines):
        # Shapes, such as (n, *shape) and (n_features_in_,).
        line = re.sub(r"(?<=[ (])\*(?=\w+\))", r"\\*", line)
        line = re.sub(r"_(?=,\))", r"\\_", line)
        # Inherited docstrings link to pages of scikit-learn.
        lines[i] = re.sub(r":ref:`([^`<]*?)\s*<[^`]*>`", r"\1", line)


def name_empty_headers(app: Any, doctree: nodes.document) -> None:
    """Give empty headers of tables a name that screen readers read and nobody sees."""
    for row in (row for head in doctree.findall(nodes.thead) for row in head.findall(nodes.row)):
        for number, entry in enumerate(row.children):
            if not entry.astext().strip():
                name = nodes.inline(text="description" if number else "row", classes=["visually-hidden"])
                entry.clear()
                entry.append(nodes.paragraph("", "", name))


def write_pages(folder: Path) -> None:
    """Write all pages into `folder`; files that have not changed keep their date."""
    names = {f"{module}.{name}" for module in MODULES for name in documented_names(module)}
    for page in (folder / "api").glob("*.rst"):
        if page.stem not in names:
            page.unlink()
    _write(folder / "api.rst", _api())
    _write(folder / "deviations.rst", _deviations())


def _api() -> str:
    """One table of names per public module; autosummary makes a page for each name."""
    lines = [_title("API reference", "="), "Every public name. Parameters state their default and effect.\n"]
    for module, purpose in MODULES.items():
        lines.append(_title(f"{module}: {purpose}".replace("`", "``"), "-"))
        lines.append(f".. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: api\n")
        names = documented_names(module)
        lines.extend([*(f"   {name}" for name in names), ""])
        aliases = [name for name in public_names(module) if name not in names]
        if aliases:
            lines.append(f"Type aliases: {', '.join(f'``{name}``' for name in aliases)}.\n")
    return "\n".join(lines)


def _deviations() -> str:
    marks = find_marks()
    deviations = [mark for mark in marks if mark.kind == "DEVIATION"]
    lines = [
        _title("Deviations from the papers", "="),
        f"Where the code departs from a published method, and why: {len(deviations)} places, collected from "
        "the comments ``# DEVIATION:`` in the source when this page was built. The pages of the methods "
        f"explain the important ones. The other {len(marks) - len(deviations)} marks, ``# PAPER:``, name "
        "what a formula or a number was taken from; they follow below.\n",
        *_marks(deviations, "-"),
        _title("What is taken from the papers", "-"),
        *_marks([mark for mark in marks if mark.kind == "PAPER"], "~"),
    ]
    return "\n".join(lines)


def _marks(marks: list[Mark], underline: str) -> list[str]:
    lines, path = [], ""
    for mark in marks:
        if mark.path != path:
            path = mark.path
            lines += ["", _title(path, underline)]
        text = mark.text.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|").replace("_ ", "\\_ ")
        text = re.sub(r"`+([^`]*)`+", r"``\1``", text)
        lines.append(f"- {text} (line {mark.line})")
    return [*lines, ""]


def _title(text: str, underline: str) -> str:
    return f"{text}\n{underline * len(text)}\n"


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
