"""The command-line interface: each command parses its arguments, calls one public function and prints."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command `stablemiss`."""
    # By default OpenMP threads wait actively, which makes boosting ten times slower if other programs use the
    # same cores. Passive waiting costs almost nothing. It must be set before OpenMP is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from stablemiss.cli.app import app

    app()
