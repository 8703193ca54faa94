"""Pictures of single predictions: digits, a map of sensors, curves through an outage. Made from records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats
from stablemiss.experiments.array_tables import ArrayColumn, ArrayTable, Setting
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.shown import Shown, ShownDigits, ShownOutage, ShownSensors
from stablemiss.pages import COLOURS, INK, picture
from stablemiss.report.text import short_title, title_of
from stablemiss.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Missing pixels of an incomplete digit, in red, green and blue.
MISSING_COLOUR = (0.0, 0.45, 0.70)
# Letters in a line of the names beside the digits.
LONGEST_NAME = 24
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


def _compared(kind: type[Kind], records: Sequence[Record], column: ArrayColumn) -> dict[str, Kind]:
    """What records of a column keep, of the methods in `COMPARED` and in that order."""
    shown = _shown(kind, records, column)
    return {label: shown[label] for label in COMPARED if label in shown}


def _digits(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """One row of digits per method, after the complete and the incomplete ones."""
    shown = {column: _shown(ShownDigits, records, column) for column in table.columns}
    shown = {column: digits for column, digits in shown.items() if digits}
    if not shown:
        return
    labels = [label for label in table.methods_in_rows if all(label in kept for kept in shown.values())]
    first = [next(iter(digits.values())) for digits in shown.values()]
    rows = [
        ("complete", [_grey(one.complete) for one in first]),
        ("incomplete", [_incomplete(one) for one in first]),
        *(
            (short_title(label), [_grey(digits[label].predicted) for digits in shown.values()])
            for label in labels
        ),
    ]
    n_digits, height, width = first[0].complete.shape
    image = np.concatenate([np.concatenate([*chain(*tiles)], axis=1) for _, tiles in rows])
    rates = [f"{rate:.0%}" for one in first for rate in one.missing.mean(axis=(1, 2))]
    with picture((8.0, 0.62 * len(rows) + 0.5)) as drawing:
        # Names may be wider on a page than in the computation of the layout.
        drawing.figure.set_layout_engine("constrained", w_pad=0.2)
        axes = drawing.figure.add_subplot()
        axes.imshow(image, interpolation="nearest")
        names = [fill(name, LONGEST_NAME) for name, _ in rows]
        axes.set_yticks([height * (i + 0.5) for i in range(len(rows))], names, fontsize=10)
        axes.set_xticks([width * (i + 0.5) for i in range(len(rates))], rates, fontsize=10)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for i, column in enumerate(shown):
            axes.annotate(
                column.title,
                (n_digits * width * (i + 0.5), 0),
                (0, 22),
                textcoords="offset points",
                ha="center",
            )
            if i > 0:
                axes.axvline(n_digits * width * i - 0.5, color=INK, linewidth=1)
    yield Picture(
        drawing.svg(f"{table.name}-digits", "Digits completed by each method"),
        f"The first {n_digits} test digits at some test levels, and what each method makes of them; missing "
        "pixels are blue. Above each digit, the share of its pixels that is missing. It differs from the "
        "level: as in the paper, one image in five has another missing rate, and here a tenth of the pixels "
        "is never missing.",
    )


def _grey(digits: NDArray[np.uint8]) -> list[NDArray]:
    return [np.repeat(digit[:, :, None] / 255, 3, axis=2) for digit in digits]


def _incomplete(digits: ShownDigits) -> list[NDArray]:
    return [
        np.where(missing[:, :, None], MISSING_COLOUR, image)
        for missing, image in zip(digits.missing, _grey(digits.complete), strict=True)
    ]


class _Panel(NamedTuple):
    """One map: a number of each sensor, NaN where there is none."""

    title: str
    values: Floats
    unit: str
    colours: str
    limits: tuple[float, float]


def _maps(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """Missing rate of each sensor, error of a method and its difference from another's, where it stands."""
    compared = {column: _compared(ShownSensors, records, column) for column in table.columns}
    shown = {column: dict([*by_label.items()][:2]) for column, by_label in compared.items() if by_label}
    if not shown:
        return
    errors = [[sensors.rmse for sensors in by_label.values()] for by_label in shown.values()]
    # Of all columns, so that their pictures have the same colours.
    highest = _limit([rmse[0] for rmse in errors])
    furthest = _limit([rmse[0] - rmse[-1] for rmse in errors])
    for column, by_label in shown.items():
        first = next(iter(by_label.values()))
        panels = _panels(by_label, highest, furthest)
        with picture((3.4 * len(panels), 3.6)) as drawing:
            all_axes = drawing.figure.subplots(1, len(panels), squeeze=False)[0]
            for axes, panel in zip(all_axes, panels, strict=True):
                _draw_map(axes, first, panel)
        yield Picture(
            drawing.svg(f"{table.name}-map-{table.columns.index(column)}", f"Map of sensors, {column.title}"),
            _map_caption(column, by_label),
        )


def _panels(by_label: Mapping[str, ShownSensors], highest: float, furthest: float) -> list[_Panel]:
    """Missing rates, errors of the first method, and their difference from those of the second, if any."""
    (label, first), *others = by_label.items()
    # Each with its own colours: matplotlib gives two equal colour bars the same id.
    return [
        _Panel("missing in the test", 100 * first.missing, "%", "cividis", (0, 100)),
        _Panel(f"RMSE of {title_of(label)}", first.rmse, "km/h", "viridis", (0, highest)),
        *(
            _Panel(
                f"the same minus that of\n{title_of(other)}",
                first.rmse - second.rmse,
                "km/h",
                "coolwarm",
                (-furthest, furthest),
            )
            for other, second in others
        ),
    ]


def _map_caption(column: ArrayColumn, by_label: Mapping[str, ShownSensors]) -> str:
    (label, first), *others = by_label.items()
    is_known = ~np.isnan(first.rmse)
    n_known, n_absent = int(is_known.sum()), int((~is_known).sum())
    sentences = [f"{column.title}: each sensor at its place."]
    for _, second in others:
        n_lower = int((first.rmse < second.rmse).sum())
        sentences.append(
            f"Blue in the right map: {title_of(label)} has the lower error ({n_lower} of {n_known} sensors)."
        )
    if n_absent:
        sentences.append(
            f"Without a point in the maps of errors: {n_absent} of {len(first.rmse)} sensors, of which "
            "nothing was observed in the test."
        )
    sentences.append("Colours mean the same in the maps of all columns; the furthest 2% are cut off.")
    return " ".join(sentences)


def _limit(values: Sequence[Floats]) -> float:
    """The absolute value that all but 2% do not exceed."""
    return float(np.nanquantile(np.abs(np.concatenate(values)), 0.98))


def _draw_map(axes: Axes, sensors: ShownSensors, panel: _Panel) -> None:
    is_known = ~np.isnan(panel.values)
    points = axes.scatter(
        sensors.longitude[is_known],
        sensors.latitude[is_known],
        c=panel.values[is_known],
        s=16,
        cmap=panel.colours,
        vmin=panel.limits[0],
        vmax=panel.limits[1],
        # Pale points are visible on a white page, dark ones on a black page.
        edgecolors=INK,
        linewidths=0.3,
    )
    # A degree of longitude is shorter than one of latitude.
    axes.set_aspect(1 / np.cos(np.radians(sensors.latitude.mean())))
    axes.set_title(panel.title, fontsize=12)
    axes.set_axis_off()
    axes.figure.colorbar(points, ax=axes, location="bottom", label=panel.unit, shrink=0.8)


def _outages(table: ArrayTable, records: Sequence[Record]) -> Iterable[Picture]:
    """Readings of one sensor before and during an outage, and what was predicted."""
    for column in table.columns:
        shown = _compared(ShownOutage, records, column)
        if not shown:
            continue
        first = next(iter(shown.values()))
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
            for (label, one), colour in zip(shown.items(), COLOURS, strict=False):
                axes.plot(hours, one.predicted, color=colour, linewidth=1.5, label=title_of(label))
            axes.set_xlabel(f"hours since {first.start.replace('T', ' ')}")
            axes.set_xticks(hours[::24])
            axes.set_ylabel("km/h")
            drawing.figure.legend(loc="outside lower center", ncols=3, frameon=False)
        caption = (
            f"{column.title}: sensor {first.sensor} through the longest outage of a test week. The newest "
            "prediction of each hour is shown; methods do not see readings while the sensor is dark."
        )
        n_absent = int(np.isnan(first.observed).sum())
        if n_absent:
            caption += (
                f" The line “observed” is interrupted in {n_absent} hours without a reading, in which there "
                "is nothing to compare predictions with."
            )
        yield Picture(
            drawing.svg(f"{table.name}-outage-{table.columns.index(column)}", f"Outage, {column.title}"),
            caption,
        )
