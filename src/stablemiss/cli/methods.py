"""`stablemiss methods`: list the available methods."""

from __future__ import annotations

import typer


def methods() -> None:
    """List the methods for --method."""
    from stablemiss.methods import METHODS

    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        typer.echo(f"{name:<{width}}  {(method.__doc__ or '').strip().splitlines()[0]}")
    typer.echo("\nAll methods support regression and classification.")
