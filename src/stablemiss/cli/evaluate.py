"""`stablemiss evaluate`: errors of a fitted model on rows whose target is known."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.fit_report import show_r2
from stablemiss.cli.formats import check_readable
from stablemiss.cli.options import (
    AsJson,
    Decimal,
    Encoding,
    FormatName,
    MissingValue,
    Separator,
    check_model_file,
    read_options,
)
from stablemiss.cli.predict import (
    AllowMissingColumns,
    ModelFile,
    NewTable,
    OnOutOfRangeOption,
    OnUnseenMissingOption,
    TargetOfModel,
    load_estimator,
)
from stablemiss.cli.training import check_column
from stablemiss.text import count, show_number, table_lines

# Name of an error in the facts → its name in the table, and how it is written.
COLUMNS = {
    "rmse": ("RMSE", show_number),
    "mae": ("MAE", show_number),
    "r2": ("R²", show_r2),
    "log_loss": ("Log loss", "{:.4f}".format),
    "accuracy": ("Accuracy", "{:.1%}".format),
    "brier": ("Brier", "{:.4f}".format),
    "coverage": ("Coverage", "{:.1%}".format),
    "mean_width": ("Width", show_number),
    "mean_size": ("Set size", show_number),
}


def evaluate(
    model: ModelFile,
    data: NewTable,
    target: TargetOfModel = None,
    coverage: Annotated[
        float, typer.Option(help="Coverage of the prediction intervals or sets that are evaluated.")
    ] = 0.9,
    as_json: AsJson = False,
    allow_missing_columns: AllowMissingColumns = False,
    on_unseen_missing: OnUnseenMissingOption = None,
    on_out_of_range: OnOutOfRangeOption = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Print the errors of a model on rows that it was not fitted to, by number of missing columns."""
    with plain_errors() as warnings:
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        check_model_file(model, data)
        check_readable(data, options.format)
        from stablemiss.cli.new_rows import open_new_rows
        from stablemiss.cli.predictions import Wanted, has_intervals, predict_batches
        from stablemiss.cli.scores import make_scores

        estimator = load_estimator(model, allow_missing_columns, on_unseen_missing, on_out_of_range)
        wanted = Wanted(coverage if has_intervals(estimator) else None)
        wanted.check(estimator, str(model))
        name = target or estimator.target_name_
        if name is None:
            raise ValueError(f"{model} does not contain the name of its target; give it with --target.")
        with open_new_rows(data, options, estimator, name) as rows:
            check_column(rows.source.column_names, name, rows.source.name)
            scores = make_scores(estimator)
            for batch, predictions in predict_batches(rows, estimator, wanted, warnings):
                assert batch.target is not None
                covered, size = predictions.coverage(batch.target)
                scores.add(batch.target, batch.n_missing, predictions.output, covered, size)
        if not scores.n_rows:
            raise ValueError(
                f"Column {name!r} in {rows.source.name} has no known values to compare with predictions."
            )
        facts = {
            "model": str(model),
            "data": rows.source.name,
            "method": estimator.method_.name,
            "target": name,
            "n_rows_without_target": scores.n_without_target,
            "n_rows_of_unknown_classes": rows.n_unknown_classes,
            "nominal_coverage": wanted.coverage,
            "overall": scores.overall(),
            "by_missing_columns": scores.by_missing(),
            "remarks": rows.remarks.lines(),
            "warnings": warnings.shown,
        }
        typer.echo(json.dumps(facts, indent=2) if as_json else render_evaluation(facts))


def render_evaluation(facts: dict[str, Any]) -> str:
    """The result of `evaluate` as text.

    Parameters
    ----------
    facts : dict
        What --json prints.
    """
    overall = facts["overall"]
    is_classes = "log_loss" in overall
    rows = count(overall["n_rows"], "row")
    lines = [f"{facts['method']} predicts {facts['target']!r} on {rows} of {facts['data']}.", ""]
    if is_classes:
        lines += [
            f"Log loss   {overall['log_loss']:.4f} (always predicting the class frequencies of these rows: "
            f"{overall['log_loss_constant']:.4f})",
            f"Accuracy   {overall['accuracy']:.1%} (always the most frequent class of these rows: "
            f"{overall['accuracy_constant']:.1%})",
            f"Brier      {overall['brier']:.4f}",
        ]
    else:
        lines += [
            f"RMSE       {show_number(overall['rmse'])} (always predicting the mean of these rows: "
            f"{show_number(overall['rmse_constant'])})",
            f"MAE        {show_number(overall['mae'])}",
        ]
        if overall["r2"] is not None:
            lines.append(f"R²         {show_r2(overall['r2'])}")
    if overall["coverage"] is not None:
        what = (
            f"sets, with {show_number(overall['mean_size'])} classes on average"
            if is_classes
            else f"intervals, of mean width {show_number(overall['mean_width'])}"
        )
        lines.append(
            f"Coverage   {overall['coverage']:.1%} of the {facts['nominal_coverage']:.0%} prediction {what}"
        )
    if facts["n_rows_without_target"]:
        unknown = facts["n_rows_of_unknown_classes"]
        reason = f" ({unknown:,} of them with a class that the model does not know)" if unknown else ""
        lines.append(
            f"Left out   {count(facts['n_rows_without_target'], 'row')} without a known target{reason}"
        )
    lines += [f"Remark     {remark}" for remark in facts["remarks"]]
    lines += ["", *_missing_table(facts["by_missing_columns"])]
    return "\n".join(lines)


def _missing_table(bins: list[dict[str, Any]]) -> list[str]:
    names = [name for name in COLUMNS if any(row.get(name) is not None for row in bins)]
    cells = [
        ["–".join(map(str, dict.fromkeys(row["missing_columns"].values()))), f"{row['n_rows']:,}"]
        + ["" if row[name] is None else COLUMNS[name][1](row[name]) for name in names]
        for row in bins
    ]
    header = ["Missing columns", "Rows", *(COLUMNS[name][0] for name in names)]
    return table_lines(header, cells, right=range(1, len(header)))
