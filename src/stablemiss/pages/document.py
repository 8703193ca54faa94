"""HTML pages that need nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stablemiss.writing import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment


def check_can_render() -> None:
    """Raise if jinja2 or matplotlib is not installed. Call it before a long computation, not after it."""
    absent = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f'The HTML report needs {" and ".join(absent)}; install with: pip install "stablemiss[report]".'
        )


def make_environment(package: str) -> Environment:
    """A jinja2 environment with the templates of a package and those that all pages share.

    Parameters
    ----------
    package : str
        Package with a folder "templates". A template starts with ``{% extends "document.html.j2" %}`` and
        fills its blocks "title", "header" and "content".

    Examples
    --------
    >>> "title" in make_environment("stablemiss.pages").get_template("document.html.j2").blocks
    True
    """
    check_can_render()
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("stablemiss.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(page: str, path: str | Path) -> Path:
    """Write a page; an earlier file is replaced only when the new one is complete."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)
