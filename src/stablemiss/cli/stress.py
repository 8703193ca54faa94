"""`stablemiss stress`: how much accuracy methods lose when values go missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stablemiss.cli.columns import Remarks, is_numeric, to_training_types
from stablemiss.cli.errors import plain_errors, rows_of_file
from stablemiss.cli.fit import ignore_suspicious_data
from stablemiss.cli.formats import check_not_input, check_readable
from stablemiss.cli.models import DEFAULT_METHOD, choose_method
from stablemiss.cli.options import (
    TABLE_HELP,
    AsJson,
    BudgetName,
    Category,
    Classify,
    Decimal,
    Encoding,
    FormatName,
    Ignore,
    MissingValue,
    NoDateFeatures,
    Regress,
    Seed,
    Separator,
    Target,
    choose_task,
    read_options,
)
from stablemiss.cli.reading import ReadOptions, read_table
from stablemiss.cli.training import Roles, check_column, read_training_rows, text_rules
from stablemiss.progress import terminal_progress
from stablemiss.writing import check_can_write

if TYPE_CHECKING:
    import pyarrow


def stress(
    data: Annotated[Path, typer.Argument(help=f"Table: {TABLE_HELP}")],
    target: Target,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Method to test; see: stablemiss methods. Can be repeated. Default: anymask.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    budget: BudgetName = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="How values go missing: MCAR, window, MAR, MNAR, outage or 'own masks'. Can be repeated. "
            "Default: all that apply.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        list[float] | None,
        typer.Option(
            help="Share of missing values, such as 0.5. Can be repeated. Default: 0.1, 0.2, …, 0.9.",
            metavar="SHARE",
            show_default=False,
        ),
    ] = None,
    other: Annotated[
        Path | None,
        typer.Option(
            help="A second table, whose missing values are laid over the rows, such as rows of production.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "--out", help="HTML page to write.", metavar="FILE", show_default=False),
    ] = None,
    classify: Classify = False,
    regress: Regress = False,
    ignore: Ignore = None,
    category: Category = None,
    no_date_features: NoDateFeatures = False,
    jobs: Annotated[int, typer.Option(help="Number of parallel jobs; -1 for one per core.")] = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Print how much accuracy methods lose when values, columns and pairs of columns go missing.

    Each method is fitted to four fifths of the rows and tested on the others, five times.
    """
    with plain_errors() as warnings:
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        check_readable(data, options.format)
        if other is not None:
            check_readable(other)
        if output is not None:
            from stablemiss.pages import check_can_render

            check_can_render()
            check_can_write(output)
            check_not_input("--output", output, {"the data": data, "--other": other})
        names = list(dict.fromkeys(method or [DEFAULT_METHOD]))
        if budget is not None and DEFAULT_METHOD not in names:
            choose_method(names[0], budget, None)  # raises
        choices = {
            name: choose_method(name, budget if name == DEFAULT_METHOD else None, None) for name in names
        }
        roles = Roles(target, choose_task(classify, regress), ignore or [], category or [])
        rows = read_training_rows(data, roles, options)
        other_table = None
        if other is not None:
            other_table = read_other(other, rows.features, options)

        from stablemiss import stress_test

        estimators = {
            name: choice.estimator(
                rows.classify,
                random_state=seed,
                date_features=not no_date_features,
                on_unseen_missing="ignore",
            )
            for name, choice in choices.items()
        }
        with ignore_suspicious_data(), rows_of_file(lambda row: rows.numbers[row]):
            result = stress_test(
                estimators,
                rows.features,
                rows.target,
                mechanism,
                level,
                other=other_table,
                n_jobs=jobs,
                random_state=seed,
                progress=terminal_progress(),
            )
        if output is not None:
            result.save_html(output)
        if as_json:
            facts = {"target": target, "data": str(data), **result.to_dict()}
            facts |= {"output": None if output is None else str(output), "warnings": warnings.shown}
            typer.echo(json.dumps(facts, indent=2))
            return
        typer.echo(str(result))
        if output is not None:
            typer.echo(f"\nPage: {output}")


def read_other(path: Path, features: pyarrow.Table, options: ReadOptions) -> pyarrow.Table:
    """The columns of a second table, with the types that they have in the first one.

    Then the same entries mean that a value is missing: "-" does among numbers, but may be a category.

    Parameters
    ----------
    path : Path
        File name.
    features : pyarrow.Table
        Columns of the first table, from which the target is predicted.
    options : ReadOptions
        How to read it. Its format is that of its extension.
    """
    options = replace(options, format=None)
    table, dialect = read_table(path, options)
    rules = text_rules(path, options, dialect)
    for column in features.column_names:
        check_column(table.column_names, column, rules.name)
    numbers = [name for name in features.column_names if is_numeric(features.column(name))]
    kinds: dict[str, list[str]] = {"numbers": numbers, "categories": [], "dates": []}
    return to_training_types(table.select(features.column_names), kinds, rules, Remarks())
