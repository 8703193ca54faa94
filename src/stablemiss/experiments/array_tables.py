"""Tables 4 and 5 as data: incomplete images and networks of failing sensors, their shifts and methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from stablemiss.experiments.tables import PAPER_METHODS
from stablemiss.missingness import LEVELS

MNIST, BERLIN, DIDI = "mnist", "berlin", "didi"
# Imposed on held-out weeks: a sensor is dark for 30% of the time, two days on average; or a district, three
# days.
OUTAGE_LEVEL = 0.3
NO_OUTAGE, SENSORS_DARK, DISTRICTS_DARK = "no outage", "sensors dark", "districts dark"
OUTAGES = (NO_OUTAGE, SENSORS_DARK, DISTRICTS_DARK)


class Setting(NamedTuple):
    """Missingness of training or test rows: a mechanism or period, and its missing rate, if it is imposed."""

    mechanism: str
    level: float | None = None


@dataclass(frozen=True)
class ArrayColumn:
    """One column: the missingness or period of training, and that of the test."""

    title: str
    train: Setting
    test: Setting
    heading: str = ""  # above the titles of neighbouring columns that have the same

    @property
    def is_shifted(self) -> bool:
        return self.train != self.test


@dataclass(frozen=True)
class ArrayTable:
    """One table of RMSEs; rows of methods that were trained under the missingness of the test come last."""

    name: str
    title: str
    dataset: str
    unit: str
    columns: tuple[ArrayColumn, ...]
    methods: tuple[str, ...]
    claim: str  # what the paper says about it
    published: str | None  # the table whose numbers are of these data
    explanation: str = ""  # of the columns and of what is predicted, in sentences
    # Labels that are also trained under the missingness of each test, for comparison.
    retrained: tuple[str, ...] = ()
    # Titles of columns with a retrained row; None: all.
    retrained_columns: tuple[str, ...] | None = None
    n_instances: int = 3
    is_public: bool = True  # whether anybody can get the data

    @property
    def methods_in_rows(self) -> tuple[str, ...]:
        """Labels in the order of the rows: the paper's methods, then the others."""
        return tuple(sorted(self.methods, key=lambda label: label not in PAPER_METHODS))

    @property
    def has_levels(self) -> bool:
        """Whether columns differ in their missing rate, as those of the paper's other tables do."""
        return self.dataset == MNIST

    def retrains(self, column: ArrayColumn) -> bool:
        """Whether the table has rows of methods that were trained under the missingness of this test."""
        has_it = self.retrained_columns is None or column.title in self.retrained_columns
        return has_it and column.is_shifted


def _mar(level: float) -> Setting:
    return Setting("mar", level)


def _imposed(name: str) -> Setting:
    return Setting(name, 0.0 if name == NO_OUTAGE else OUTAGE_LEVEL)


def _period_column(train: str, test: str) -> ArrayColumn:
    return ArrayColumn(f"{train} → {test}", Setting(train), Setting(test), "other period: trained → tested")


def _outage_column(name: str) -> ArrayColumn:
    return ArrayColumn(name, _imposed(NO_OUTAGE), _imposed(name), "same year: outages imposed in the test")


_IMAGE_METHODS = (
    "constant",
    "ols",
    "label_gaussian",
    "factor_analysis",
    "gaussian_and_local",
    *PAPER_METHODS,
    "stablemiss_unweighted",
    "stablemiss_local",
    "stablemiss_local_augmented",
    "zero_fill",
    "mask_input",
    "mask_input_augmented",
    "partial_convolution",
)
_SENSOR_METHODS = (
    "hour_of_week",
    "last_value",
    "decayed_last_value",
    "ridge_on_lags",
    "boosting_on_lags",
    "boosting_on_lags_masked",
    "boosting_on_lags_pooled",
    "kalman",
    "local_and_ridge",
    *PAPER_METHODS,
    "stablemiss_unweighted",
    "stablemiss_local",
    "stablemiss_local_augmented",
    "stablemiss_local_without_graph",
    "zero_fill",
    "mask_input",
    "mask_input_augmented",
)
_HOURS = "One RMSE over the next eight hours together, which are predicted from the last eight."
_SHIFTS = (("2023", "2024"), ("2024", "2023"), ("Mar–Apr 2023", "Jan–Feb 2024"))

ARRAY_TABLES: dict[str, ArrayTable] = {
    table.name: table
    for table in (
        ArrayTable(
            name="table4",
            title="MNIST under MAR, trained at 50% missing",
            dataset=MNIST,
            unit="RMSE in units of brightness, 0 to 255, over all pixels of the raw output",
            columns=tuple(
                ArrayColumn(f"{100 * level:g}%", _mar(0.5), _mar(level), "missing pixels in the test")
                for level in LEVELS
            ),
            methods=_IMAGE_METHODS,
            claim="StableMiss is always best; under a shift its gap is 32–50% below the second, mostly "
            "StableNet's.",
            published="table4",
            retrained=("stablemiss",),
            retrained_columns=("10%", "90%"),
        ),
        ArrayTable(
            name="table5",
            title="Road traffic in Berlin, the next eight hours",
            dataset=BERLIN,
            unit="RMSE in km/h over the observed readings",
            columns=(
                *(_period_column(train, test) for train, test in _SHIFTS),
                *(_outage_column(name) for name in OUTAGES),
            ),
            methods=_SENSOR_METHODS,
            claim="StableMiss is best (on other roads): its gap is 38% below StableNet's, the second.",
            published=None,
            explanation=f"{_HOURS} Other period: readings are missing as they really were. Same year: "
            "trained on three of four weeks of 2023 without imposed outages and tested on the fourth, where "
            f"readings are hidden from the histories for {OUTAGE_LEVEL:.0%} of the time: of single sensors, "
            "for two days on average, or of whole districts, for three. What is to be predicted is the same "
            "in these three columns.",
            retrained=("stablemiss_unweighted", "stablemiss_local", "stablemiss_local_augmented"),
            retrained_columns=(SENSORS_DARK, DISTRICTS_DARK),
        ),
    )
}
# The paper's data of table 5 are not public; who has them can run the table.
ARRAY_TABLES["table5_didi"] = replace(
    ARRAY_TABLES["table5"],
    name="table5_didi",
    title="Road traffic in Chengdu, the next eight hours",
    dataset=DIDI,
    claim="StableMiss is best: its gap is 38% below StableNet's, the second.",
    published="table5",
    explanation=_HOURS,
    columns=(_period_column("Jan–Jun", "Jul–Dec"),),
    retrained=(),
    is_public=False,
)
ARRAY_DATASETS = tuple(table.dataset for table in ARRAY_TABLES.values())
