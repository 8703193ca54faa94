"""The command line: parse arguments, call one public function, print."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command `stablemiss`."""
    # OpenMP's threads wait by spinning unless told otherwise before they are loaded. Where other programs
    # want the cores too, boosting then takes ten times as long; waiting asleep costs next to nothing.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from stablemiss.cli.app import app

    app()
