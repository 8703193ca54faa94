"""Pictures of single predictions: digits, a map of sensors, curves through an outage. Made from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from textwrap import fill
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stablemiss.experiments.array_tables import ArrayColumn, ArrayTable, Setting
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.shown import Shown, ShownDigits, ShownOutage, ShownSensors
from stablemiss.pages import COLOURS, INK, picture
from stablemiss.report.text import title_of
from stablemiss.results import Record

# Missing pixels of an incomplete digit, in red, green and blue.
MISSING_COLOUR = (0.0, 0.45, 0.70)
# Methods with a map or a curve, in this order, as far as there are records; the first two have a map.
COMPARED = ("stablemiss_local", "ridge_on_lags", "stablemiss", "boosting_on_lags", "kalman")


class Picture(NamedTuple):
    """A drawing for a page, and what it shows."""

    svg: str
    caption: str


Kind = TypeVar("Kind", bound=Shown)


def array_pictures(table: ArrayTable, records: Iterable[Record], budget: Budget) -> list[Picture]:
    """Pictures of a table of images or sensors. There are none without records that keep what they show.

    Parameters
    ----------
    table : ArrayTable
    records : iterable of Record
        Records of any tables; those of other data and budgets are ignored.
    budget : Budget
    """
    kept = [one for one in records if (one.experiment, one.dataset) == (budget.name, table.dataset)]
    return [picture for draw in (_digits, _maps, _outages) for picture in draw(table, kept)]


def _shown(kind: type[Kind], records: Sequence[Record], column: ArrayColumn) -> dict[str, Kind]:
    """Label → what its record of a column keeps, of the first instance that keeps something."""
    found: dict[str, Kind] = {}
    for record in sorted(records, key=lambda record: record.instance):
        if Setting(record.mechanism, record.level) != column.train:
            continue
        for score in record.scores:
            if Setting(score.mechanism, score.level) == column.test and kind.key in score.extra:
                found.setdefault(record.label, kind.from_extra(score.extra[kind.key]))
    return found


def _digits(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """One row of digits per method, after the complete and the incomplete ones."""
    shown = {column: _shown(ShownDigits, records, column) for column in table.columns}
    shown = {column: digits for column, digits in shown.items() if digits}
    if not shown:
        return
    labels = [label for label in table.methods if all(label in digits for digits in shown.values())]
    first = [next(iter(digits.values())) for digits in shown.values()]
    rows = [
        ("complete", [_grey(one.complete) for one in first]),
        ("incomplete", [_incomplete(one) for one in first]),
        *(
            (title_of(label), [_grey(digits[label].predicted) for digits in shown.values()])
            for label in labels
        ),
    ]
    height, n_digits = first[0].complete.shape[1], len(first[0].complete)
    image = np.concatenate([np.concatenate([*chain(*tiles)], axis=1) for _, tiles in rows])
    with picture((8.0, 0.62 * len(rows) + 0.3)) as drawing:
        axes = drawing.figure.add_subplot()
        axes.imshow(image, interpolation="nearest")
        axes.set_yticks(
            [height * (i + 0.5) for i in range(len(rows))], [fill(name, 22) for name, _ in rows], fontsize=10
        )
        width = n_digits * first[0].complete.shape[2]
        axes.set_xticks([width * (i + 0.5) for i in range(len(first))], [one.title for one in shown])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for i in range(1, len(first)):
            axes.axvline(width * i - 0.5, color=INK, linewidth=1)
    yield Picture(
        drawing.svg(f"{table.name}-digits", "Digits completed by each method"),
        f"The first {n_digits} test digits at each test level, and what each method makes of them; missing "
        "pixels are blue.",
    )


def _grey(digits: NDArray[np.uint8]) -> list[NDArray]:
    return [np.repeat(digit[:, :, None] / 255, 3, axis=2) for digit in digits]


def _incomplete(digits: ShownDigits) -> list[NDArray]:
    return [
        np.where(missing[:, :, None], MISSING_COLOUR, image)
        for missing, image in zip(digits.missing, _grey(digits.complete), strict=True)
    ]


def _maps(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """Missing rate and error of each sensor, where it stands."""
    for column in table.columns:
        shown = _shown(ShownSensors, records, column)
        labels = [label for label in COMPARED if label in shown][:2]
        if not labels:
            continue
        first = shown[labels[0]]
        panels = [("missing in the test", 100 * first.missing, "%", 100.0)]
        limit = float(np.nanquantile(np.concatenate([shown[label].rmse for label in labels]), 0.98))
        panels += [(f"RMSE of {title_of(label)}", shown[label].rmse, "km/h", limit) for label in labels]
        with picture((4.0 * len(panels), 4.0)) as drawing:
            for axes, (title, values, unit, highest) in zip(
                drawing.figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
            ):
                is_known = ~np.isnan(values)
                points = axes.scatter(
                    first.longitude[is_known],
                    first.latitude[is_known],
                    c=values[is_known],
                    s=14,
                    cmap="viridis",
                    vmin=0,
                    vmax=highest,
                )
                # A degree of longitude is shorter than one of latitude.
                axes.set_aspect(1 / np.cos(np.radians(first.latitude.mean())))
                axes.set_title(title, fontsize=12)
                axes.set_axis_off()
                drawing.figure.colorbar(points, ax=axes, location="bottom", label=unit, shrink=0.8)
        yield Picture(
            drawing.svg(f"{table.name}-map-{table.columns.index(column)}", f"Map of sensors, {column.title}"),
            f"{column.title}: each sensor at its place. Colours of errors mean the same in all panels; the "
            "highest 2% are cut off.",
        )


def _outages(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """Readings of one sensor before and during an outage, and what was predicted."""
    for column in table.columns:
        shown = _shown(ShownOutage, records, column)
        labels = [label for label in COMPARED if label in shown]
        if not labels:
            continue
        first = shown[labels[0]]
        hours = np.arange(len(first.observed))
        with picture((8.0, 3.6)) as drawing:
            axes = drawing.figure.add_subplot()
            axes.fill_between(
                hours,
                0,
                1,
                where=first.is_dark,
                transform=axes.get_xaxis_transform(),
                color=INK,
                alpha=0.1,
                linewidth=0,
                label="sensor dark",
            )
            axes.plot(hours, first.observed, color=INK, linewidth=2.5, label="observed")
            for label, colour in zip(labels, COLOURS, strict=False):
                axes.plot(hours, shown[label].predicted, color=colour, linewidth=1.5, label=title_of(label))
            axes.set_xlabel(f"hours since {first.start.replace('T', ' ')}")
            axes.set_xticks(hours[::24])
            axes.set_ylabel("km/h")
            drawing.figure.legend(loc="outside lower center", ncols=3, frameon=False)
        yield Picture(
            drawing.svg(f"{table.name}-outage-{table.columns.index(column)}", f"Outage, {column.title}"),
            f"{column.title}: sensor {first.sensor} through the longest outage of a test week. The "
            "newest prediction of each hour is shown; methods do not see readings while the sensor is dark.",
        )
