"""The command-line interface: each command parses its arguments, calls public functions and prints."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command `stablemiss`."""
    # By default OpenMP threads wait actively, which makes boosting ten times slower if other programs use the
    # same cores. Passive waiting costs almost nothing. It must be set before OpenMP is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from stablemiss.cli.interrupts import watch_interrupts

        watch_interrupts()
        from stablemiss.cli.app import app
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; nothing was written.\n")
        sys.exit(130)
    app()
