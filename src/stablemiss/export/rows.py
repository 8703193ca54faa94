"""The encoding of a table as tensor operations: from the inputs of an ONNX model to values and mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stablemiss.data import Floats
from stablemiss.encoding import OnOutOfRange
from stablemiss.encoding.columns import CATEGORIES, CONSTANT, DATES, NEVER_OBSERVED, NUMBERS
from stablemiss.encoding.dates import PERIODS
from stablemiss.encoding.encoder import MAX_DEVIATION
from stablemiss.encoding.fitted import Encoding
from stablemiss.export.graph import ML, CannotExportError, Graph

if TYPE_CHECKING:
    from onnx import ValueInfoProto

# Names of the inputs.
NUMBERS_INPUT, CATEGORIES_INPUT, DATES_INPUT = "numbers", "categories", "dates"
# Text that means missing, and a category of the self-test that does not occur in training.
MISSING_TEXT, UNKNOWN = "", "\0 unknown"
# The integer of numpy's NaT.
MISSING_DATE = np.iinfo(np.int64).min
MICROSECONDS_PER_DAY, MICROSECONDS_PER_HOUR, MICROSECONDS_PER_MINUTE = (
    86_400_000_000,
    3_600_000_000,
    60_000_000,
)
# Days from 1 March of the year 0, and from 1 January of the year 1, to 1 January 1970.
FROM_MARCH_0, FROM_YEAR_1 = 719_468, 719_162


@dataclass(frozen=True)
class Rows:
    """Encoded rows as values of a graph.

    Attributes
    ----------
    values : str
        (n, d), zero where missing.
    mask : str
        (n, d) bool, True = observed.
    out_of_range : str
        (n, d) bool, as in `Encoded`.
    n_columns : int
        d
    """

    values: str
    mask: str
    out_of_range: str
    n_columns: int

    def observed(self, graph: Graph) -> str:
        """The mask as numbers, 1 = observed."""
        return graph.op("Cast", self.mask, to=_DOUBLE)

    def with_nan(self, graph: Graph) -> str:
        """The values with NaN where missing, (n, d), as trees expect them."""
        return graph.op("Where", self.mask, self.values, np.nan)

    def without_out_of_range(self, graph: Graph) -> Rows:
        """The same rows if values out of range were missing."""
        mask = graph.op("And", self.mask, graph.op("Not", self.out_of_range))
        values = graph.op("Where", mask, self.values, 0.0)
        return Rows(values, mask, self.out_of_range, self.n_columns)


def input_columns(encoding: Encoding) -> dict[str, list[int]]:
    """Name of each input of the ONNX model → positions of its columns in the user's table.

    Columns that carry no information are left out: those that were never observed in training, and those that
    were constant and never missing.
    """
    kinds = list(enumerate(encoding.kinds))
    columns = {
        NUMBERS_INPUT: [
            j for j, kind in kinds if kind == NUMBERS or (kind == CONSTANT and encoding.ever_missing[j])
        ],
        CATEGORIES_INPUT: [j for j, kind in kinds if kind == CATEGORIES],
        DATES_INPUT: [j for j, kind in kinds if kind == DATES],
    }
    return {name: positions for name, positions in columns.items() if positions}


def input_types(encoding: Encoding) -> list[ValueInfoProto]:
    """Types and shapes of the inputs."""
    from onnx import TensorProto, helper

    types = {
        NUMBERS_INPUT: TensorProto.DOUBLE,
        CATEGORIES_INPUT: TensorProto.STRING,
        DATES_INPUT: TensorProto.INT64,
    }
    return [
        helper.make_tensor_value_info(name, types[name], ["n", len(columns)])
        for name, columns in input_columns(encoding).items()
    ]


def add_encoding(graph: Graph, encoding: Encoding, on_out_of_range: OnOutOfRange) -> Rows:
    """Encode the inputs as `TableEncoder.transform` does.

    Parameters
    ----------
    graph : Graph
    encoding : Encoding
    on_out_of_range : "clip" or "missing"
        What happens to values far outside the range in training.
    """
    inputs = input_columns(encoding)
    if not inputs:
        raise CannotExportError("The model cannot be exported: its table has no column with information.")
    numbers = _raw_numbers(graph, encoding, inputs)
    ranges, mean, scale = encoding.ranges, encoding.mean, encoding.scale
    below, above = graph.op("Less", numbers, ranges.lower), graph.op("Greater", numbers, ranges.upper)
    clipped = graph.op("Where", above, ranges.upper, graph.op("Where", below, ranges.lower, numbers))
    beyond = graph.op("Or", below, above)
    if DATES in encoding.kinds:
        # If one feature of a date is out of range, all of them are.
        same = (encoding.groups[:, None] == encoding.groups).astype(np.float64)
        beyond = graph.op("Greater", graph.op("MatMul", graph.op("Cast", beyond, to=_DOUBLE), same), 0.5)
    mask = graph.op("Not", graph.op("IsNaN", numbers))
    if on_out_of_range == "missing":
        mask = graph.op("And", mask, graph.op("Not", beyond))
    values = graph.op("Div", graph.op("Sub", clipped, mean), scale)
    values = graph.op("Clip", values, -MAX_DEVIATION, MAX_DEVIATION)
    is_used = mask if np.isfinite(scale).all() else graph.op("And", mask, np.isfinite(scale))
    return Rows(graph.op("Where", is_used, values, 0.0), mask, beyond, len(encoding.groups))


def _raw_numbers(graph: Graph, encoding: Encoding, inputs: dict[str, list[int]]) -> str:
    """Encoded columns (n, d) before standardisation, NaN where missing or unknown."""
    n_rows = graph.op("Slice", graph.op("Shape", next(iter(inputs))), [0], [1])
    parts: list[str] = []
    positions: list[int] = []  # of the parts among the encoded columns

    def add(part: str, j: int, width: int = 1) -> None:
        parts.append(part)
        positions.extend(range(encoding.first[j], encoding.first[j] + width))

    if columns := inputs.get(NUMBERS_INPUT):
        is_constant = np.array([encoding.kinds[j] == CONSTANT for j in columns])
        # A constant column is zero wherever it is observed.
        part = graph.op("Mul", NUMBERS_INPUT, 1.0 - is_constant) if is_constant.any() else NUMBERS_INPUT
        parts.append(part)
        positions.extend(encoding.first[columns])
    for i, j in enumerate(inputs.get(CATEGORIES_INPUT, ())):
        categories = encoding.categories[j]
        text = graph.op("Squeeze", graph.columns(CATEGORIES_INPUT, i, i + 1), [1])
        codes = graph.op(
            "LabelEncoder",
            text,
            domain=ML,
            keys_strings=categories.categories,
            values_int64s=list(range(len(categories.categories))),
            default_int64=categories.missing_code,
        )
        embedding = np.vstack([categories.embedding, np.full((1, categories.width), np.nan)])
        add(graph.op("Gather", embedding, codes), j, categories.width)
    for i, j in enumerate(inputs.get(DATES_INPUT, ())):
        features = _date_features(graph, graph.columns(DATES_INPUT, i, i + 1))
        names = encoding.date_parts[j]
        add(graph.op("Concat", *(features[name] for name in names), axis=1), j, len(names))
    shape = graph.op("Concat", n_rows, [1], axis=0)
    for j in sorted(set(range(encoding.n_features)) - {j for columns in inputs.values() for j in columns}):
        add(graph.op("Expand", np.nan if encoding.kinds[j] == NEVER_OBSERVED else 0.0, shape), j)
    numbers = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    order = np.argsort(positions)
    return (
        numbers
        if np.array_equal(order, np.arange(len(order)))
        else graph.op("Gather", numbers, order, axis=1)
    )


def _date_features(graph: Graph, dates: str) -> dict[str, str]:
    """Features of one column of dates (n, 1), in microseconds since 1970, as `date_parts` computes them."""
    op = graph.op

    def floor_divide(value: str, divisor: int) -> str:
        return op("Div", op("Sub", value, op("Mod", value, divisor)), divisor)

    def double(value: str) -> str:
        return op("Cast", value, to=_DOUBLE)

    def days_before(year: str) -> str:
        """Days from 1970 to the first of January of a year."""
        previous = op("Sub", year, 1)
        leap_days = op("Sub", floor_divide(previous, 4), floor_divide(previous, 100))
        leap_days = op("Add", leap_days, floor_divide(previous, 400))
        return op("Sub", op("Add", op("Mul", previous, 365), leap_days), FROM_YEAR_1)

    is_missing = op("Equal", dates, MISSING_DATE)
    time = op("Where", is_missing, 0, dates)
    day = floor_divide(time, MICROSECONDS_PER_DAY)
    # The year that starts in March, so that the leap day is the last, within a cycle of 400 years.
    shifted = op("Add", day, FROM_MARCH_0)
    era = floor_divide(shifted, 146_097)
    day_of_era = op("Mod", shifted, 146_097)
    leap_days = op("Sub", op("Div", day_of_era, 36_524), op("Div", day_of_era, 1_460))
    leap_days = op("Sub", leap_days, op("Div", day_of_era, 146_096))
    year_of_era = op("Div", op("Add", day_of_era, leap_days), 365)
    days_of_years = op("Sub", op("Div", year_of_era, 4), op("Div", year_of_era, 100))
    days_of_years = op("Add", op("Mul", year_of_era, 365), days_of_years)
    month_from_march = op("Div", op("Add", op("Mul", op("Sub", day_of_era, days_of_years), 5), 2), 153)
    month = op("Add", op("Mod", op("Add", month_from_march, 2), 12), 1)
    is_next_year = op("Cast", op("Less", month, 3), to=_INT64)
    year = op("Add", op("Add", year_of_era, op("Mul", era, 400)), is_next_year)
    start, end = days_before(year), days_before(op("Add", year, 1))
    day_of_year = op("Sub", day, start)
    fraction = op("Div", double(day_of_year), double(op("Sub", end, start)))
    features = {
        "year": op("Add", double(year), fraction),
        "month": double(month),
        "day of year": double(op("Add", day_of_year, 1)),
        "weekday": double(op("Mod", op("Add", day, 3), 7)),
        "hour": op("Div", double(op("Mod", time, MICROSECONDS_PER_DAY)), float(MICROSECONDS_PER_HOUR)),
    }
    minute = floor_divide(op("Mod", time, MICROSECONDS_PER_DAY), MICROSECONDS_PER_MINUTE)
    is_whole_minute = op("Equal", op("Mod", time, MICROSECONDS_PER_MINUTE), 0)
    # Position of each feature in a list of the numbers it can have. Sine and cosine of these are looked up,
    # because computed elsewhere they may differ in the last digit: LightGBM puts thresholds between numbers
    # so close.
    listed = {
        "day of year": (day_of_year, np.arange(1, 367)),
        "weekday": (op("Mod", op("Add", day, 3), 7), np.arange(7)),
        "hour": (minute, np.arange(24 * 60) * MICROSECONDS_PER_MINUTE / MICROSECONDS_PER_HOUR),
    }
    for part, period in PERIODS.items():
        position, numbers = listed[part]
        angles = 2 * np.pi * numbers / period
        angle = op("Div", op("Mul", features[part], 2 * np.pi), float(period))
        for name, function, operator in (("sine", np.sin, "Sin"), ("cosine", np.cos, "Cos")):
            cycle = op("Gather", function(angles), position)
            if part == "hour":
                cycle = op("Where", is_whole_minute, cycle, op(operator, angle))
            features[f"{name} of {part}"] = cycle
    return {name: op("Where", is_missing, np.nan, feature) for name, feature in features.items()}


def draw_inputs(encoding: Encoding, n_rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs for the self-test, with everything in one row missing and nothing in another.

    Numbers come from a range somewhat wider than that of the training rows; a few categories are unknown.
    """
    # Each row has its own share of missing values, from none to all.
    observed = rng.random((n_rows, encoding.n_features)) < np.linspace(0, 1, n_rows)[:, None]
    observed[0], observed[-1] = False, True
    inputs: dict[str, np.ndarray] = {}
    for name, columns in input_columns(encoding).items():
        kept = observed[:, columns]
        if name == NUMBERS_INPUT:
            low, high = (
                encoding.ranges.minimum[encoding.first[columns]],
                encoding.ranges.maximum[encoding.first[columns]],
            )
            inputs[name] = np.where(kept, _draw_numbers(low, high, kept.shape, rng), np.nan)
        elif name == CATEGORIES_INPUT:
            entries = [np.array([*encoding.categories[j].categories, UNKNOWN], dtype=object) for j in columns]
            drawn = np.column_stack([choices[rng.integers(len(choices), size=n_rows)] for choices in entries])
            inputs[name] = np.where(kept, drawn, MISSING_TEXT)
        else:
            years = [encoding.groups == j for j in columns]
            low = np.array([encoding.ranges.minimum[group][0] for group in years])
            high = np.array([encoding.ranges.maximum[group][0] for group in years])
            is_year = np.array([encoding.date_parts[j][0] == "year" for j in columns])
            year = np.where(
                is_year, _draw_numbers(low, high, kept.shape, rng), rng.uniform(1990, 2030, kept.shape)
            )
            microseconds = ((year - 1970) * 365.2425 * MICROSECONDS_PER_DAY).astype(np.int64)
            # Half of the rows have whole hours, as many tables do.
            whole = microseconds // MICROSECONDS_PER_HOUR * MICROSECONDS_PER_HOUR
            microseconds = np.where(rng.random((n_rows, 1)) < 0.5, whole, microseconds)
            inputs[name] = np.where(kept, microseconds, MISSING_DATE)
    return inputs


def _draw_numbers(low: Floats, high: Floats, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Numbers in a range that is wider than [low, high], at both ends."""
    share = rng.uniform(-0.7, 1.7, shape)
    # Half of the rows are within the range.
    share = np.where(rng.random((shape[0], 1)) < 0.5, np.clip(share, 0, 1), share)
    return low * (1 - share) + high * share


# onnx.TensorProto.DOUBLE and INT64, without the import.
_DOUBLE, _INT64 = 11, 7
