"""The command-line interface: each command parses its arguments, calls public functions and prints."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command `stablemiss`."""
    # By default OpenMP threads wait actively, which makes boosting ten times slower if other programs use the
    # same cores. Passive waiting costs almost nothing. It must be set before OpenMP is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from stablemiss.cli.interrupts import EXIT_CODE, end_process, watch_interrupts

    watch_interrupts()
    try:
        from stablemiss.cli.app import app

        app()
    except KeyboardInterrupt:
        end_process()
    except SystemExit as end:
        if end.code == EXIT_CODE:
            end_process()
        raise
