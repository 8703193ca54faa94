"""The command `stablemiss` and its subcommands. Large libraries are imported late to keep `--help` fast."""

from __future__ import annotations

from typing import Annotated

import typer

from stablemiss import __version__
from stablemiss.cli.adapt import adapt
from stablemiss.cli.card import card
from stablemiss.cli.demo import demo
from stablemiss.cli.diagnose import diagnose
from stablemiss.cli.evaluate import evaluate
from stablemiss.cli.fit import fit
from stablemiss.cli.methods import methods
from stablemiss.cli.predict import predict
from stablemiss.cli.report import report
from stablemiss.cli.reproduce import reproduce
from stablemiss.cli.stress import stress
from stablemiss.cli.tune import tune

app = typer.Typer(
    name="stablemiss",
    help="Prediction from incomplete tables that stays accurate when the missingness changes.",
    epilog="Start here:  stablemiss demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"stablemiss {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


app.command(epilog="Example:  stablemiss demo --seed 1 --train-level 0.5")(demo)
app.command(epilog="Example:  stablemiss fit houses.csv --target price --model houses.stablemiss")(fit)
app.command(epilog="Example:  stablemiss evaluate houses.stablemiss other_houses.csv")(evaluate)
app.command(
    epilog="Example:  stablemiss predict houses.stablemiss new.csv --interval 0.9 --explain --keep id"
)(predict)
app.command(
    epilog="Example:  stablemiss diagnose before.csv now.csv --model houses.stablemiss --output shift.html"
)(diagnose)
app.command(epilog="Example:  stablemiss adapt houses.stablemiss new.csv --train houses.csv")(adapt)
app.command(epilog="Example:  stablemiss card houses.stablemiss --output card.html")(card)
app.command(
    epilog="Example:  stablemiss stress houses.csv --target price --method anymask --method boosting"
)(stress)
app.command(epilog="Example:  stablemiss tune houses.csv --target price --study houses.journal")(tune)
app.command(epilog="Example:  stablemiss methods")(methods)
app.command(epilog="Example:  stablemiss reproduce table1 figure2 --budget quick --jobs 2")(reproduce)
app.command(epilog="Example:  stablemiss report --budget quick --output reproduction.html")(report)
