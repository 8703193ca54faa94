"""`stablemiss methods`: list the available methods."""

from __future__ import annotations

import typer


def methods() -> None:
    """List the methods for --method."""
    from stablemiss.cli.models import DEFAULT_METHOD
    from stablemiss.methods import summaries

    lines = {
        name: f"{summary} (default)" if name == DEFAULT_METHOD else summary
        for name, summary in summaries().items()
    }
    width = max(map(len, lines))
    for name, line in lines.items():
        typer.echo(f"{name:<{width}}  {line}")
    typer.echo("\nAll methods support regression and classification.")
