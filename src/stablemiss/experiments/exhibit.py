"""What a table or figure of the paper is made of, as data: who is trained where, and tested where."""

from __future__ import annotations

from dataclasses import dataclass

# PAPER: the eight methods, in the order of its tables.
EIGHT = ("partial_vae", "miwae", "p_bigan", "neumiss", "dwr", "srdo", "stablenet", "stablemiss")
# What they should be seen beside; the paper has none of these.
BESIDE = (
    "stablemiss_unweighted",
    "constant",
    "ols",
    "em_mixture",
    "boosting",
    "boosting_masked_copies",
    "anymask",
)
# PAPER: what its ablation leaves out, from all terms of the weights to none.
ABLATION = ("stablemiss_full", "stablemiss_intra", "stablemiss_inter", "stablemiss_unweighted")
OPTIMAL, LINEAR = "optimal", "linear"


@dataclass(frozen=True)
class Column:
    """One column of a table, or one point of a figure: the level to train at and the one to test at."""

    train_level: float
    test_level: float


@dataclass(frozen=True)
class Exhibit:
    """One table or figure.

    Parameters
    ----------
    name : str
        As `stablemiss reproduce` knows it, such as ``table1``.
    title : str
        What it shows, in a line.
    claim : str
        What the paper says about it.
    dataset : str
        A name in `stablemiss.experiments.problems.DATASETS`.
    train_mechanism, test_mechanism : str
        Names in `stablemiss.missingness.MECHANISMS`.
    columns : tuple of Column
    methods : tuple of str
        Labels in `stablemiss.experiments.budgets.LABELS`, in the order of the lines.
    reference : str
        The label that gaps are taken from: its RMSE is subtracted.
    reference_in_place : bool
        The reference is trained at each column's test level, instead of where the methods are.
    target_sd : float, optional
        Standard deviation of the target over a real table: the error of predicting its mean.
    n_instances : int
        Populations or splits at budget "standard".
    """

    name: str
    title: str
    claim: str
    dataset: str
    train_mechanism: str
    test_mechanism: str
    columns: tuple[Column, ...]
    methods: tuple[str, ...] = (*EIGHT, *BESIDE, LINEAR)
    reference: str = OPTIMAL
    reference_in_place: bool = False
    target_sd: float | None = None
    n_instances: int = 3

    @property
    def is_figure(self) -> bool:
        return self.name.startswith("figure")

    @property
    def subject(self) -> str:
        """Whom it is about: the paper's method, or its weights with all their terms."""
        return ABLATION[0] if self.is_figure else "stablemiss"

    def reference_level(self, column: Column) -> float:
        """Where the reference is trained for a column."""
        return column.test_level if self.reference_in_place else column.train_level
