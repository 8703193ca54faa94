"""A diagnosis as an HTML page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Bools
from stablemiss.diagnostics.pictures import BEFORE, MAX_COLUMNS, NOW, draw_matrix, draw_rates
from stablemiss.diagnostics.shift.findings import TITLES, Finding
from stablemiss.pages import INK, make_environment, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from stablemiss.diagnostics.shift.diagnosis import Diagnosis

# Rows of the table of columns before the rest is folded.
N_SHOWN = 15
# Columns of the heat map, masks of the bars, and pictures of drivers.
N_PAIRED, N_MASKS, N_DRIVERS = 20, 10, 3
N_BINS = 6


def render_diagnosis(result: Diagnosis) -> str:
    """One page: the verdict, the forecast, the columns, and pictures of what moved."""
    environment = make_environment("stablemiss.diagnostics.shift")
    facts = result.to_dict()
    order = sorted(
        facts["columns"],
        key=lambda one: (
            not (one["is_rate_shifted"] or one["is_link_shifted"] or one["is_value_shifted"]),
            -abs(one["missing_now"] - one["missing_before"]),
        ),
    )
    return environment.get_template("diagnosis.html.j2").render(
        facts=facts,
        result=result,
        columns=order,
        n_shown=N_SHOWN,
        titles=TITLES,
        pictures=_pictures(result),
    )


def _pictures(result: Diagnosis) -> dict[str, list[tuple[str, str]]]:
    """Section → pictures and their captions."""
    comparison, tables = result.comparison, result.comparison.tables
    before, now = (1 - mask.mean(axis=0) for mask in (tables.reference, tables.current))
    sections: dict[str, list[tuple[str, str]]] = {"rates": [], "masks": [], "drivers": [], "forecast": []}
    shown = min(len(tables.names), MAX_COLUMNS)
    with picture((7.0, 1.4 + 0.32 * shown)) as drawing:
        draw_rates(drawing.figure.add_subplot(), tables.names, before, now)
    limit = f" The {shown} most changed of {len(tables.names)} columns." if shown < len(tables.names) else ""
    caption = f"Missing rate of each column, before and now.{limit}"
    sections["rates"].append((drawing.svg("rates", caption), caption))
    with picture((8.0, 4.2)) as drawing:
        for axes, mask, title in zip(
            drawing.figure.subplots(1, 2), (tables.reference, tables.current), ("before", "now"), strict=True
        ):
            order = np.argsort(-np.abs(now - before), kind="stable")[:MAX_COLUMNS]
            draw_matrix(axes, mask[:, order], [tables.names[j] for j in order])
            axes.set_title(title)
    caption = "Missing values (dark), rows down, the most changed columns first."
    sections["masks"].append((drawing.svg("matrix", caption), caption))
    if pairs := _pairs(result):
        sections["masks"].append(pairs)
    sections["masks"].append(_common_masks(tables.reference, tables.current, tables.names))
    links = [one for one in comparison.findings if one.kind == "link"][:N_DRIVERS]
    sections["drivers"] += [_driver(result, one, i) for i, one in enumerate(links)]
    if result.forecast is not None:
        sections["forecast"].append(_forecast(result))
    return sections


def _pairs(result: Diagnosis) -> tuple[str, str] | None:
    """Correlations of mask indicators in both tables, as two heat maps."""
    tables, pairs = result.comparison.tables, result.comparison.pairs
    change = np.nan_to_num(np.abs(pairs.current - pairs.reference))
    strength = np.maximum(change, np.nan_to_num(np.abs(pairs.current)) * 0.5)
    np.fill_diagonal(strength, 0.0)
    strongest = strength.max(axis=0)
    chosen = np.sort(np.argsort(-strongest, kind="stable")[: min(N_PAIRED, int((strongest > 0).sum()))])
    if len(chosen) < 2 or strength.max() == 0:
        return None
    names = [tables.names[j] for j in chosen]
    with picture((8.0, 4.6)) as drawing:
        panels = drawing.figure.subplots(1, 2, sharey=True)
        for axes, matrix, title in zip(
            panels, (pairs.reference, pairs.current), ("before", "now"), strict=True
        ):
            values = matrix[np.ix_(chosen, chosen)].copy()
            np.fill_diagonal(values, np.nan)
            image = axes.imshow(values, cmap="PuOr_r", vmin=-1, vmax=1)
            axes.set_xticks(range(len(chosen)), names, rotation=90, fontsize=8)
            axes.set_yticks(range(len(chosen)), names, fontsize=8)
            axes.set_title(title)
            axes.tick_params(length=0)
        drawing.figure.colorbar(image, ax=list(panels), shrink=0.8, label="correlation of missingness")
    caption = "Which columns are missing together (orange) or in turn (violet); grey or empty: not defined."
    return drawing.svg("pairs", caption), caption


def _common_masks(reference: Bools, current: Bools, names: list[str]) -> tuple[str, str]:
    """The commonest masks and how often they occur in both tables."""
    counts = [Counter(map(bytes, np.packbits(mask, axis=1))) for mask in (reference, current)]
    shares = [
        {key: count / len(mask) for key, count in one.items()}
        for one, mask in zip(counts, (reference, current), strict=True)
    ]
    keys = sorted(set(shares[0]) | set(shares[1]), key=lambda key: -sum(one.get(key, 0.0) for one in shares))
    keys = keys[:N_MASKS]
    d = reference.shape[1]
    masks = np.array([np.unpackbits(np.frombuffer(key, np.uint8))[:d] for key in keys], dtype=bool)
    labels = []
    for mask in masks:
        missing = [names[j] for j in np.flatnonzero(~mask)]
        text = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        labels.append(text or "nothing missing")
    y = np.arange(len(keys))
    with picture((7.5, 1.2 + 0.42 * len(keys))) as drawing:
        axes = drawing.figure.add_subplot()
        for shift, one, colour, label in (
            (-0.18, shares[0], BEFORE, "before"),
            (0.18, shares[1], NOW, "now"),
        ):
            axes.barh(y + shift, [100 * one.get(key, 0.0) for key in keys], 0.34, color=colour, label=label)
        axes.set_yticks(y, labels, fontsize=10)
        axes.set_ylim(len(keys) - 0.5, -0.5)
        axes.set_xlabel("% of rows")
        drawing.figure.legend(loc="outside lower center", ncols=2, frameon=False)
    caption = f"The {len(keys)} commonest combinations of missing columns."
    return drawing.svg("masks", caption), caption


def _driver(result: Diagnosis, finding: Finding, number: int) -> tuple[str, str]:
    """Missing rate of a column by the value of the column that drives it, in both tables."""
    tables = result.comparison.tables
    j, k = (tables.names.index(name) for name in finding.columns)
    values, observed, is_current = tables.numbers(k)
    edges = np.unique(np.quantile(values[observed], np.linspace(0, 1, N_BINS + 1)))
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    missing = ~np.concatenate([tables.reference[:, j], tables.current[:, j]])
    with picture((6.0, 3.4)) as drawing:
        axes = drawing.figure.add_subplot()
        for is_table, colour, marker, label in (
            (~is_current, BEFORE, "o", "before"),
            (is_current, NOW, "D", "now"),
        ):
            rates = [
                100 * missing[rows].mean() if (rows := is_table & observed & (bins == b)).any() else np.nan
                for b in range(len(edges) - 1)
            ]
            axes.plot(range(1, len(edges)), rates, color=colour, marker=marker, label=label)
        axes.set_xticks([1, len(edges) - 1], ["lowest", "highest"])
        axes.set_xlabel(f"value of {finding.columns[1]}, in {len(edges) - 1} groups of equal size")
        axes.set_ylabel(f"% missing, {finding.columns[0]}")
        axes.set_ylim(bottom=0)
        drawing.figure.legend(loc="outside lower center", ncols=2, frameon=False)
    caption = f"Missing rate of {finding.columns[0]!r} by the value of {finding.columns[1]!r}."
    return drawing.svg(f"driver-{number}", finding.sentence), caption


def _forecast(result: Diagnosis) -> tuple[str, str]:
    expected = result.forecast
    assert expected is not None
    bars: list[tuple[str, float, Any]] = [("before", expected.before, BEFORE)]
    bars += [(f"only {cause.column}", cause.error, "#999999") for cause in expected.causes]
    bars += [("now, forecast", expected.after, NOW)]
    y = np.arange(len(bars))
    with picture((7.0, 1.4 + 0.4 * len(bars))) as drawing:
        axes: Axes = drawing.figure.add_subplot()
        axes.barh(y, [value for _, value, _ in bars], color=[colour for *_, colour in bars])
        low, high = expected.interval
        axes.errorbar(
            expected.after,
            y[-1],
            xerr=[[expected.after - low], [high - expected.after]],
            color=INK,
            capsize=4,
            linestyle="none",
        )
        axes.axvline(expected.constant, color=INK, linestyle=":", label="constant prediction")
        axes.set_yticks(y, [name for name, *_ in bars])
        axes.invert_yaxis()
        axes.set_xlabel(expected.metric)
        drawing.figure.legend(loc="outside lower center", frameon=False)
    caption = (
        f"{expected.metric} before, if only one column's missing rate had changed, and now (95% interval)."
    )
    return drawing.svg("forecast", caption), caption
