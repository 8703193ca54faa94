"""`stablemiss diagnose`: has the missingness shifted between two tables, and what does it cost a model?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stablemiss.cli.columns import Remarks, infer_types, is_numeric, to_training_types
from stablemiss.cli.errors import plain_errors
from stablemiss.cli.formats import check_not_input, check_readable
from stablemiss.cli.options import (
    TABLE_HELP,
    AsJson,
    Decimal,
    Encoding,
    FormatName,
    Ignore,
    MissingValue,
    Seed,
    Separator,
    check_model_file,
    read_options,
)
from stablemiss.cli.predict import load_estimator
from stablemiss.cli.reading import ReadOptions, read_table
from stablemiss.cli.training import check_column, text_rules
from stablemiss.writing import check_can_write

if TYPE_CHECKING:
    import pyarrow


def diagnose(
    reference: Annotated[Path, typer.Argument(help=f"Table from before: {TABLE_HELP}")],
    current: Annotated[Path, typer.Argument(help="New table, with the same columns.")],
    model: Annotated[
        Path | None,
        typer.Option(
            help="Model file, whose error under the new missing values is forecast. The first table must "
            "contain its target, and should not be the table it was fitted to.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column that the model predicts, which is not compared. Default: that of the model.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    ignore: Ignore = None,
    alpha: Annotated[float, typer.Option(help="Probability of a false alarm.")] = 0.05,
    min_change: Annotated[
        float, typer.Option(help="Smaller changes of missing rates and the like do not count.")
    ] = 0.01,
    output: Annotated[
        Path | None, typer.Option(help="HTML page to write, with pictures.", show_default=False)
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Tell whether the missingness has changed, in which columns, and what it costs.

    The exit code is 0 if there was no shift, 1 if there was one, and 2 if there are too few rows to tell, or
    if an error occurred.
    """
    with plain_errors():
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        for path in (reference, current):
            check_readable(path, options.format)
        if output is not None:
            check_can_write(output)
            inputs = {"the first table": reference, "the second table": current, "--model": model}
            check_not_input("--output", output, {name: path for name, path in inputs.items() if path})
        if model is not None:
            check_model_file(model, reference)
        from stablemiss import diagnose as diagnose_tables
        from stablemiss.cli.new_rows import read_all_rows
        from stablemiss.pages import check_can_render

        if output is not None:
            check_can_render()
        estimator = None if model is None else load_estimator(model, True, None, None)
        if estimator is None:
            left_out = [*(ignore or []), *([] if target is None else [target])]
            tables, y = _read_tables((reference, current), options, left_out), None
        else:
            if ignore:
                raise ValueError(
                    "--ignore cannot be used with --model, which compares the columns of the model."
                )
            name = estimator.target_name_ or target
            if target is not None and name != target:
                raise ValueError(f"{model} predicts {name!r}, not {target!r}; leave --target out.")
            if name is None:
                raise ValueError(f"{model} does not contain the name of its target; give it with --target.")
            first, y = read_all_rows(reference, options, estimator, name)
            tables = first, read_all_rows(current, options, estimator, None)[0]
        result = diagnose_tables(*tables, estimator, y, alpha=alpha, min_change=min_change, random_state=seed)
        if output is not None:
            result.save_html(output)
        typer.echo(json.dumps(result.to_dict(), indent=2) if as_json else str(result))
        if result.absent and model is None and target is None and not as_json:
            typer.echo("\nLeave an absent target out with --target, and other columns with --ignore.")
        if output is not None and not as_json:
            typer.echo(f"\nWritten: {output}")
        raise typer.Exit(result.exit_code)


def _read_tables(
    paths: tuple[Path, Path], options: ReadOptions, ignored: list[str]
) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Both tables; the second one is read with the types of the first."""
    table, dialect = read_table(paths[0], options)
    for name in ignored:
        check_column(table.column_names, name, str(paths[0]))
    kept = [name for name in table.column_names if name not in ignored]
    first, _ = infer_types(table.select(kept), text_rules(paths[0], options, dialect))
    is_number = {name: is_numeric(first.column(name)) for name in kept}
    table, dialect = read_table(paths[1], options)
    names = [name for name in table.column_names if name not in ignored]
    rules = text_rules(paths[1], options, dialect)
    second, _ = infer_types(table.select(names), rules)
    # Digits are numbers in one file, and text if another one also has letters there: as in the first.
    kinds: dict[str, list[str]] = {"numbers": [], "categories": [], "dates": []}
    for name in set(kept) & set(names):
        if is_number[name] != is_numeric(second.column(name)):
            kinds["numbers" if is_number[name] else "categories"].append(name)
    for name in (*kinds["numbers"], *kinds["categories"]):
        column = to_training_types(table.select([name]), kinds, rules, Remarks()).column(0)
        second = second.set_column(names.index(name), name, column)
    return first, second
