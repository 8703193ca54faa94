"""Report on row weights: dependence before and after weighting, and the effective sample size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Bools, Floats, centre_and_scale, zero_where_missing
from stablemiss.decorrelation import TERMS, dependence
from stablemiss.diagnostics.dependence import dependence_matrix
from stablemiss.diagnostics.heatmaps import draw_matrices
from stablemiss.encoding import read_table
from stablemiss.seeding import draw_seed, one_of, to_rng

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"xx": "two columns", "mm": "two mask indicators", "xm": "column and mask indicator"}
# Number of most dependent pairs listed in the text.
N_NAMED_PAIRS = 3


@dataclass(frozen=True, eq=False)
class WeightReport:
    """Dependence under equal and under given weights, and the effective sample size.

    ``print(report)`` shows a short table; `plot` draws the matrices.

    Attributes
    ----------
    names : list of str
        Names of the d columns.
    n_rows : int
        Number of rows.
    effective_rows : float
        Effective sample size (Σw)² / Σw²: the number of equally weighted rows that give estimates of the same
        variance.
    largest_share : float
        The largest weight as a fraction of the total; 1 / n_rows if all weights are equal.
    before, after : dict
        Dependence under equal and under the given weights, summed over all pairs: "xx" between columns, "mm"
        between mask indicators, "xm" between columns and the mask indicators of other columns, as in
        `stablemiss.decorrelation.dependence`.
    matrix_before, matrix_after : (2d, 2d)
        Dependence of each pair on a scale from 0 to 1, see `dependence_matrix`: first the columns, then their
        mask indicators.

    See Also
    --------
    weight_report : Computes the report.
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
        """Effective rows as a fraction of all rows; one if all weights are equal."""
        return self.effective_rows / self.n_rows

    def strongest(self, n: int = N_NAMED_PAIRS) -> list[tuple[str, str, float, float]]:
        """The most dependent pairs under the weights.

        Parameters
        ----------
        n : int, default=3
            Maximum number of pairs.

        Returns
        -------
        list of tuple
            Two names, then the dependence before and after weighting.
        """
        labels = [*self.names, *(f"mask of {name}" for name in self.names)]
        rows, columns = np.triu_indices(len(labels), 1)
        after = np.nan_to_num(self.matrix_after[rows, columns], nan=-1.0)
        order = [pair for pair in np.argsort(-after, kind="stable")[:n] if after[pair] > 0]
        return [
            (
                labels[rows[pair]],
                labels[columns[pair]],
                float(self.matrix_before[rows[pair], columns[pair]]),
                float(after[pair]),
            )
            for pair in order
        ]

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows} weighted rows have the effective sample size {self.effective_rows:.0f} "
            f"({self.effective_share:.0%}); the largest weight is {self.largest_share:.2%} of the total.",
            "",
            f"{'dependence between':<26}{'before':>10}{'after':>10}{'change':>9}",
        ]
        for term, label in LABELS.items():
            before, after = self.before[term], self.after[term]
            change = f"{after / before - 1:+.0%}" if before > 0 else "–"
            lines.append(f"{label:<26}{before:>10.3f}{after:>10.3f}{change:>9}")
        pairs = self.strongest()
        if pairs:
            lines += ["", "most dependent pairs after weighting (0 to 1):"]
            lines += [f"  {first} and {second}: {b:.2f} → {a:.2f}" for first, second, b, a in pairs]
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the two matrices side by side on a common colour scale.

        Pairs with too few joint rows, and the diagonals, are grey. The colour scale is a square root, so that
        weak dependences are visible.

        Returns
        -------
        matplotlib Figure
            Not registered with pyplot: display it in a notebook, or save it with
            ``figure.savefig("weights.png")``.
        """
        return draw_matrices(
            self.names,
            {
                f"equal weights, {self.n_rows} rows": self.matrix_before,
                f"given weights, {self.effective_rows:.0f} effective rows": self.matrix_after,
            },
        )


def weight_report(
    X: Any, weight: Any, *, q: int = 5, draws: int = 4, random_state: Any = 0, rng: Any = None
) -> WeightReport:
    """Report how much dependence row weights remove, and the effective sample size that remains.

    Equal and given weights are compared with the same random features, which are drawn for the report and
    were not used for learning the weights.

    Parameters
    ----------
    X : table with at least one row and one column
        A numpy array, or a pandas, polars or similar data frame; NaN, None and null mean missing. Columns are
        standardised; categories are replaced by their position in alphabetical order.
    weight : (n,)
        One non-negative number per row of X. Only proportions matter.
    q : int, default=5
        Number of random features per column. A larger value detects more kinds of dependence. The sums "xx",
        "mm" and "xm" grow with the square of q, so compare only reports with the same q.
    draws : int, default=4
        Number of draws of features to average over. A larger value is less noisy; the cost is proportional.
    random_state : int, Generator or None, default=0
        Determines the random features. Pass an int for reproducible results.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    WeightReport

    See Also
    --------
    dependence_matrix : The dependence of each pair under given weights.
    stablemiss.decorrelation.learn_weights : Weights that lower the dependence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> agree = (X[:, 0] > 0) == (X[:, 1] > 0)
    >>> kept = agree | (rng.random(1000) < 0.25)  # keep few rows with different signs
    >>> report = weight_report(X[kept], np.where(agree, 1.0, 4.0)[kept])
    >>> bool(report.after["xx"] < 0.2 * report.before["xx"])
    True
    >>> print(str(report).splitlines()[0])
    611 weighted rows have the effective sample size 391 (64%); the largest weight is 0.41% of the total.
    """
    table = read_table(X)
    share = _read_shares(weight, table.n_rows)
    if q < 1 or draws < 1:
        raise ValueError(f"q and draws must be at least 1; got q={q} and draws={draws}.")
    values, mask = _standardise(table.columns)
    rng = to_rng(one_of(random_state, rng))
    seeds = [draw_seed(rng) for _ in range(draws)]

    def measure(row_weight: Floats) -> tuple[dict[str, float], Floats]:
        sums = [dependence(values, mask, row_weight, q=q, rng=to_rng(seed)) for seed in seeds]
        matrices = [dependence_matrix(values, mask, row_weight, q, rng=to_rng(seed)) for seed in seeds]
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
    """Weight of each row as a fraction of the total, (n,)."""
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"weight must have one number for each of the {n_rows} rows of X; got shape {weight.shape}."
        )
    is_valid = np.isfinite(weight) & (weight >= 0)
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"weight must be finite and non-negative; the weight of row {row} is {weight[row]}. "
            "Use 0 for rows to be ignored."
        )
    if not weight.any():
        raise ValueError("The weights must not all be zero; give at least one row a positive weight.")
    # Divided by the largest weight first, so that the sum cannot overflow.
    weight = weight / weight.max()
    return weight / weight.sum()


def _standardise(columns: list[Any]) -> tuple[Floats, Bools]:
    """Values (n, d), zero where missing, and mask (n, d); one column per column of the user's table."""
    numbers = np.stack([_to_numbers(column) for column in columns], axis=1)
    mask = ~np.isnan(numbers)
    centre, scale = centre_and_scale(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        values = (numbers - centre) / scale
    # `centre_and_scale` gives constant columns the scale ∞, so ∞ / ∞ is NaN here.
    return zero_where_missing(values, mask & np.isfinite(values)), mask


def _to_numbers(column: Any) -> Floats:
    """Numbers unchanged, dates as days; categories (strings, None = missing) coded in alphabetical order."""
    if column.dtype.kind == "M":
        return (column - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    if column.dtype != object:
        return column
    codes = {level: float(code) for code, level in enumerate(sorted(set(column) - {None}))}
    return np.array([np.nan if entry is None else codes[entry] for entry in column])
