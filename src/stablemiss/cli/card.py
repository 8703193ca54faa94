"""`stablemiss card`: what a fitted model is, what it was fitted to, and where its limits are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.options import AsJson, check_model_file
from stablemiss.cli.predict import ModelFile, load_estimator
from stablemiss.writing import atomic_write, check_can_write

HTML_SUFFIXES = (".html", ".htm")


def card(
    model: ModelFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            help="File to write: HTML if its name ends in .html, otherwise Markdown.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the card of a model: data, masks seen in training, expected errors, limits and versions."""
    with plain_errors():
        if output is not None:
            if output.suffix in HTML_SUFFIXES:
                from stablemiss.pages import check_can_render

                check_can_render()
            check_can_write(output)
            check_model_file(model, output)
        made = load_estimator(model, False, None, None).model_card()
        if output is None:
            typer.echo(json.dumps(made.to_dict(), indent=2) if as_json else made.to_markdown(), nl=as_json)
        elif output.suffix in HTML_SUFFIXES:
            made.save_html(output)
        else:
            with atomic_write(output) as unfinished:
                unfinished.write_text(made.to_markdown(), encoding="utf-8")
