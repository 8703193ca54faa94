"""The paper's tables and figures, and the demo, as data: training and test missingness, methods."""

from __future__ import annotations

from dataclasses import dataclass

from stablemiss.missingness import LEVELS

# PAPER: the eight methods, in the order of its tables.
PAPER_METHODS = ("partial_vae", "miwae", "p_bigan", "neumiss", "dwr", "srdo", "stablenet", "stablemiss")
# Methods that the paper does not compare with.
ADDED_METHODS = (
    "stablemiss_unweighted",
    "stablemiss_weighted",
    "constant",
    "ols",
    "em_mixture",
    "boosting",
    "boosting_masked_copies",
    "anymask",
)
# Methods that the paper names beside its eight, later ones, and what one would do otherwise: a group of rows
# in the tables with one training per instance.
FURTHER_METHODS = (
    "gain",
    "misgan",
    "crlr",
    "dgbr",
    "mirrams",
    "mask_dro",
    "pattern_submodels",
    "iterative_imputer",
)
# In the tables of the paper's appendix, all but the slowest.
_MOST_ADDED_METHODS = tuple(label for label in ADDED_METHODS if label != "anymask")
# In tables that take a training for each column, those beside the paper's that cost little.
_FEW_ADDED_METHODS = ("stablemiss_unweighted", "constant", "ols", "em_mixture", "boosting")
# PAPER: the variants of its ablation, from all decorrelation terms to none.
ABLATION = ("stablemiss_full", "stablemiss_intra", "stablemiss_inter", "stablemiss_unweighted")
# The same with our form of the weights.
WEIGHTED_ABLATION = ("stablemiss_weighted_full", "stablemiss_weighted_intra", "stablemiss_weighted_inter")
OPTIMAL, LINEAR, CONSTANT = "optimal", "linear", "constant"
DATA_TITLES = {
    "gaussian": "Gaussian",
    "gaussian_ind": "Gaussian-Ind",
    "gaussian_mix": "Gaussian-Mix",
    "house_sales": "House sales (in 10,000 dollars)",
}
# PAPER: the names of the mechanisms in its tables.
MECHANISM_TITLES = {"mar": "MAR", "mcar_window": "MCAR", "mcar_independent": "MCAR-Ind"}


@dataclass(frozen=True)
class TableColumn:
    """One column of a table, or one point of a figure: missing rates of training and test rows."""

    train_level: float
    test_level: float


@dataclass(frozen=True)
class PaperTable:
    """One table or figure."""

    name: str  # as in `stablemiss reproduce`, such as "table1"
    dataset: str  # a key of DATA_TITLES
    train_mechanism: str  # keys of MECHANISM_TITLES
    test_mechanism: str
    columns: tuple[TableColumn, ...]
    # Labels, in the order of the rows.
    methods: tuple[str, ...] = (*PAPER_METHODS, *ADDED_METHODS, LINEAR, *FURTHER_METHODS)
    n_instances: int = 5  # populations, or splits of a real table, at budget "standard"
    reference: str = OPTIMAL  # a gap is the RMSE minus the reference's
    reference_at_test_level: bool = False  # the reference is trained at the test level of each column
    target_sd: float | None = None  # of a real table: the error of predicting the mean

    @property
    def title(self) -> str:
        """Data and mechanism, and the level that all columns share."""
        data = DATA_TITLES[self.dataset]
        train, test = MECHANISM_TITLES[self.train_mechanism], MECHANISM_TITLES[self.test_mechanism]
        if train != test:
            return f"{data}, trained under {train}, tested under {test}"
        level = self.columns[0].train_level
        if not self.trains_for_each_column:
            return f"{data} under {train}, trained at {100 * level:g}% missing"
        return f"{data} under {train}, tested at {100 * self.columns[0].test_level:g}% missing"

    @property
    def claim(self) -> str:
        """What the paper says about it; empty for the demo."""
        return CLAIMS.get(self.name, "")

    @property
    def is_figure(self) -> bool:
        return self.name.startswith("figure")

    @property
    def trains_for_each_column(self) -> bool:
        """Whether every column needs its own training, because the missing rates of training differ."""
        return len({column.train_level for column in self.columns}) > 1

    @property
    def subject(self) -> str:
        """The label with which all others are compared: the paper's method, or its full variant."""
        return ABLATION[0] if self.is_figure else "stablemiss"

    def reference_level(self, column: TableColumn) -> float:
        """Missing rate at which the reference of a column is trained."""
        return column.test_level if self.reference_at_test_level else column.train_level

    def column_level(self, column: TableColumn) -> float:
        """The level that names a column: the one that differs between columns."""
        has_one_test_level = len({each.test_level for each in self.columns}) == 1
        return column.train_level if has_one_test_level else column.test_level

    def is_as_trained(self, column: TableColumn) -> bool:
        """Whether the test rows of a column have the missingness of the training rows."""
        return self.train_mechanism == self.test_mechanism and column.train_level == column.test_level


CLAIMS = {
    "table1": "StableMiss is always best; under a shift its gap is 31–44% below NeuMiss's, the second.",
    "table2": "StableMiss is always best; under a shift its gap is 30–50% below NeuMiss's, the second.",
    "table3": "StableMiss is best under a shift: its gap is 26–50% below the second, mostly StableNet's.",
    "table6": "StableMiss is always best; under a shift its gap is 6–10% below NeuMiss's, the second.",
    "table7": "StableMiss is best under a shift, 8–31% below NeuMiss, which is slightly better without one.",
    "table8": "StableMiss is best under a shift, 23–39% below NeuMiss, which is slightly better without one.",
    "table9": "StableMiss is always best; under a shift its gap is 14–39% below NeuMiss's, the second.",
    "table10": "StableMiss is always best; its gap is 39% below NeuMiss's, the second.",
    "table11": "StableMiss is always best; its gap is 24% below NeuMiss's, the second.",
    "figure2": "Using all terms is best: the gap is 55% below the second best's, 83% below it at 90%.",
    "figure3": "With independent columns and masks the error with weights is close to that without.",
}


def _trained_at(level: float) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(level, test) for test in LEVELS)


_TRAINED_AT_50, _TRAINED_AT_10 = _trained_at(0.5), _trained_at(0.1)
_TESTED_AT_50 = tuple(TableColumn(level, 0.5) for level in LEVELS)
_SAME_LEVEL = tuple(TableColumn(level, level) for level in LEVELS)
_MOST_METHODS = (*PAPER_METHODS, *_MOST_ADDED_METHODS, LINEAR, *FURTHER_METHODS)
_FEW_METHODS = (*PAPER_METHODS, *_FEW_ADDED_METHODS, LINEAR)
_FIGURE_METHODS = (*ABLATION, *WEIGHTED_ABLATION)
_INDEPENDENT, _WINDOW = "mcar_independent", "mcar_window"

TABLES: dict[str, PaperTable] = {
    table.name: table
    for table in (
        PaperTable("table1", "gaussian_mix", "mar", "mar", _TRAINED_AT_50),
        PaperTable("table2", "gaussian_mix", "mar", "mar", _TESTED_AT_50, _FEW_METHODS, n_instances=3),
        PaperTable(
            name="table3",
            dataset="house_sales",
            train_mechanism="mar",
            test_mechanism="mar",
            columns=_TRAINED_AT_50,
            methods=(*PAPER_METHODS, *ADDED_METHODS, *FURTHER_METHODS),
            reference="stablemiss",
            reference_at_test_level=True,
            target_sd=36.71,
        ),
        PaperTable("table6", "gaussian_ind", _INDEPENDENT, _INDEPENDENT, _TRAINED_AT_50, _MOST_METHODS),
        PaperTable("table7", "gaussian", _WINDOW, _WINDOW, _TRAINED_AT_50, _MOST_METHODS),
        PaperTable("table8", "gaussian", "mar", "mar", _TRAINED_AT_50, _MOST_METHODS),
        PaperTable("table9", "gaussian_mix", _WINDOW, _WINDOW, _TRAINED_AT_50, _MOST_METHODS),
        PaperTable("table10", "gaussian_mix", _WINDOW, "mar", _SAME_LEVEL, _FEW_METHODS, n_instances=3),
        PaperTable("table11", "gaussian_mix", "mar", _WINDOW, _SAME_LEVEL, _FEW_METHODS, n_instances=3),
        PaperTable("figure2", "gaussian_mix", "mar", "mar", _TRAINED_AT_10, _FIGURE_METHODS),
        PaperTable("figure3", "gaussian_ind", _INDEPENDENT, _INDEPENDENT, _TRAINED_AT_10, _FIGURE_METHODS),
    )
}
_DEMO_METHODS = (
    "ols",
    "boosting",
    "boosting_masked_copies",
    "stablemiss_unweighted",
    "em_mixture",
    "anymask_fast",
)


def demo_table(mechanism: str = "mar", train_level: float = 0.1) -> PaperTable:
    """The demo as a table: Gaussian-Mix, trained at one missing rate, tested at all nine.

    Parameters
    ----------
    mechanism : "mar", "mcar_window" or "mcar_independent", default="mar"
        Missingness mechanism of training and test rows. Under these the mask carries no information beyond
        the observed values, so Optimal is optimal.
    train_level : float, default=0.1
        Share of values missing in training, between 0 and 1.

    Examples
    --------
    >>> demo_table().title
    'Gaussian-Mix under MAR, trained at 10% missing'
    """
    if mechanism not in MECHANISM_TITLES:
        raise ValueError(f"mechanism must be one of {', '.join(MECHANISM_TITLES)}; got {mechanism!r}.")
    if not 0 < train_level < 1:
        raise ValueError(f"train_level must lie between 0 and 1; got {train_level}.")
    methods = (*_DEMO_METHODS, CONSTANT, LINEAR)
    columns = _trained_at(train_level)
    return PaperTable("demo", "gaussian_mix", mechanism, mechanism, columns, methods, n_instances=1)
