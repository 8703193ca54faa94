"""What row weights did to a table: how dependent its columns and mask bits are now, and at what price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Bools, Floats, centre_and_scale, hide
from stablemiss.decorrelation import TERMS, dependence
from stablemiss.diagnostics.dependence import dependence_matrix
from stablemiss.diagnostics.picture import draw_matrices
from stablemiss.encoding import read_table
from stablemiss.seeding import draw_seed, to_rng

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEANING = {"xx": "column and column", "mm": "mask bit and mask bit", "xm": "column and mask bit"}
# How many of the pairs that are still most dependent the text names.
N_NAMED = 3


@dataclass(frozen=True, eq=False)
class WeightReport:
    """Dependence under equal weights and under the given ones, and how many rows the weights leave.

    Printed, it is a table of a few lines; `plot` draws the matrices.

    Attributes
    ----------
    names : list of str
        The d columns.
    n_rows : int
    effective_rows : float
        (Σw)² / Σw²: how many equally weighted rows would be as steady. Estimates from weighted rows are as
        noisy as if there were only so many.
    largest_share : float
        The largest weight as a share of the total; 1 / n_rows if all are equal.
    before, after : dict
        Dependence "xx" between columns, "mm" between mask bits, "xm" between columns and other columns'
        mask bits, as `stablemiss.decorrelation.dependence` measures it: sums over all pairs.
    matrix_before, matrix_after : (2d, 2d)
        Each pair on a scale from 0 to 1, see `dependence_matrix`: first the columns, then their mask bits.
    """

    names: list[str]
    n_rows: int
    effective_rows: float
    largest_share: float
    before: dict[str, float]
    after: dict[str, float]
    matrix_before: Floats
    matrix_after: Floats

    @property
    def effective_share(self) -> float:
        """Effective rows as a share of all rows: one if all weights are equal."""
        return self.effective_rows / self.n_rows

    def strongest(self, n: int = N_NAMED) -> list[tuple[str, str, float, float]]:
        """The n most dependent pairs under the weights: names, then dependence before and after."""
        labels = [*self.names, *(f"mask of {name}" for name in self.names)]
        rows, columns = np.triu_indices(len(labels), 1)
        found = np.nan_to_num(self.matrix_after[rows, columns], nan=-1.0)
        order = [pair for pair in np.argsort(-found, kind="stable")[:n] if found[pair] > 0]
        return [
            (
                labels[rows[pair]],
                labels[columns[pair]],
                float(self.matrix_before[rows[pair], columns[pair]]),
                float(found[pair]),
            )
            for pair in order
        ]

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows} weighted rows are worth {self.effective_rows:.0f} equal ones "
            f"({self.effective_share:.0%}); the largest weight is {self.largest_share:.2%} of the total.",
            "",
            f"{'dependence between':<24}{'before':>10}{'after':>10}{'change':>9}",
        ]
        for term, meaning in MEANING.items():
            before, after = self.before[term], self.after[term]
            change = f"{after / before - 1:+.0%}" if before > 0 else "–"
            lines.append(f"{meaning:<24}{before:>10.3f}{after:>10.3f}{change:>9}")
        pairs = self.strongest()
        if pairs:
            lines += ["", "most dependent pairs now (0 to 1):"]
            lines += [f"  {first} and {second}: {b:.2f} → {a:.2f}" for first, second, b, a in pairs]
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the two matrices side by side, on one colour scale.

        Pairs seen together too rarely to be compared, and the diagonals, are left grey. The colours spread
        out weak dependences: half the scale's length is a quarter of its height.

        Returns
        -------
        matplotlib Figure
            Not known to pyplot: show it in a notebook, or save it with ``figure.savefig("weights.png")``.
        """
        return draw_matrices(
            self.names,
            {
                f"equal weights, {self.n_rows} rows": self.matrix_before,
                f"these weights, worth {self.effective_rows:.0f} rows": self.matrix_after,
            },
        )


def weight_report(X: Any, weight: Any, *, q: int = 5, draws: int = 4, random_state: Any = 0) -> WeightReport:
    """Look at row weights before trusting them: what they undo, and how many rows they leave.

    Both sides are measured through the same random features, drawn for this report and so unknown to
    whatever learnt the weights.

    Parameters
    ----------
    X : table with at least one row and one column
        Numpy, pandas, polars and the like; NaN, None and null mean missing. Columns are standardised first;
        categories count as numbers in the order of their names.
    weight : (n,)
        One number per row of X, not negative. Only proportions matter.
    q : int
        Random features per column. More see more kinds of dependence; the sums "xx", "mm" and "xm" grow
        with the square of q, so compare only reports of the same q.
    draws : int
        Draws of features that are averaged. More give steadier numbers and take proportionally longer.
    random_state : int, Generator or None
        Draws the features. The same number gives the same report.

    Returns
    -------
    WeightReport

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> agree = (X[:, 0] > 0) == (X[:, 1] > 0)
    >>> kept = agree | (rng.random(1000) < 0.25)  # rows that disagree are rare
    >>> report = weight_report(X[kept], np.where(agree, 1.0, 4.0)[kept])
    >>> bool(report.after["xx"] < 0.2 * report.before["xx"])
    True
    >>> print(str(report).splitlines()[0])
    611 weighted rows are worth 391 equal ones (64%); the largest weight is 0.41% of the total.
    """
    table = read_table(X)
    share = _read_shares(weight, table.n_rows)
    if q < 1 or draws < 1:
        raise ValueError(f"q and draws must be at least 1, but q={q} and draws={draws} came.")
    values, mask = _standardised(table.columns)
    rng = to_rng(random_state)
    seeds = [draw_seed(rng) for _ in range(draws)]

    def measure(rows: Floats) -> tuple[dict[str, float], Floats]:
        sums = [dependence(values, mask, rows, q=q, rng=to_rng(seed)) for seed in seeds]
        matrices = [dependence_matrix(values, mask, rows, q, rng=to_rng(seed)) for seed in seeds]
        means = {term: float(np.mean([terms[term] for terms in sums])) for term in TERMS}
        return means, np.mean(matrices, axis=0)

    before, matrix_before = measure(np.ones(table.n_rows))
    after, matrix_after = measure(share)
    return WeightReport(
        names=table.labels or [str(j) for j in range(len(table.columns))],
        n_rows=table.n_rows,
        effective_rows=float(1 / (share**2).sum()),
        largest_share=float(share.max()),
        before=before,
        after=after,
        matrix_before=matrix_before,
        matrix_after=matrix_after,
    )


def _read_shares(weight: Any, n_rows: int) -> Floats:
    """Each row's share of the total weight."""
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"weight must hold one number for each of the {n_rows} rows of X, but has shape {weight.shape}."
        )
    good = np.isfinite(weight) & (weight >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"Every weight must be finite and not negative, but row {row} weighs {weight[row]}; give a row "
            "to be ignored the weight 0."
        )
    if not weight.any():
        raise ValueError("The weights are all zero, so no row is left to look at.")
    # In units of the largest, sums cannot overflow.
    weight = weight / weight.max()
    return weight / weight.sum()


def _standardised(columns: list[Any]) -> tuple[Floats, Bools]:
    """Values (n, d), zero where hidden, and mask (n, d): one column for each of the user's."""
    numbers = np.stack([_to_numbers(column) for column in columns], axis=1)
    mask = ~np.isnan(numbers)
    centre, scale = centre_and_scale(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        values = (numbers - centre) / scale
    # A constant column has an infinite scale; what overflowed in one is not a number by now.
    return hide(values, mask & np.isfinite(values)), mask


def _to_numbers(column: Any) -> Floats:
    """Numbers as they are; categories (strings, None = missing) by their place among the sorted ones."""
    if column.dtype != object:
        return column
    place = {level: float(number) for number, level in enumerate(sorted(set(column) - {None}))}
    return np.array([np.nan if entry is None else place[entry] for entry in column])
