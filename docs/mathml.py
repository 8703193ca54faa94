"""Formulas as MathML, which browsers draw themselves: no script, no font and no network."""

from __future__ import annotations

from typing import Any, Literal

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _to_mathml(formula: str, display: Literal["inline", "block"]) -> str:
    mathml = convert(formula.replace(r"\arg", r"\operatorname{arg}"), display=display)
    if "<mi>\\" in mathml:
        raise ValueError(f"The formula {formula!r} contains a command that latex2mathml does not know.")
    return mathml


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    formula = _to_mathml(node.astext(), "block")
    # Long formulas scroll, and can be reached with the keyboard.
    translator.body.append(
        f'<div class="formula" tabindex="0" role="group" aria-label="Formula">{formula}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
