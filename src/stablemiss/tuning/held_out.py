"""The measure of a trial: fit on one part of the rows, judge on the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from stablemiss.data import Floats, missing_cells
from stablemiss.encoding import read_table
from stablemiss.encoding.table import Table
from stablemiss.estimators.missing import AnyMethodEstimator
from stablemiss.estimators.rows import read_labels, read_numbers, read_weight, split_rows
from stablemiss.missingness import Mechanism
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the rows.

    Attributes
    ----------
    rows : (n, d) float64 or object
        NaN or None where missing.
    target : (n,) or (n, d_output)
    weight : (n,) float64
    """

    rows: NDArray
    target: NDArray
    weight: Floats


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows to learn from and rows, held out, to judge by: the same for every trial.

    Attributes
    ----------
    learn, judge : Part
    seed : int
        Fixes what is random in a fit.
    """

    learn: Part
    judge: Part
    seed: int

    @classmethod
    def of(
        cls,
        estimator: AnyMethodEstimator,
        X: Any,
        y: Any,
        sample_weight: Any,
        valid_fraction: float,
        test_mechanism: Mechanism | None,
        seed: int,
    ) -> Self:
        """Split a table, alike in every class; hide further cells of the held-out rows by `test_mechanism`."""
        table = read_table(X)
        is_classes = is_classifier(estimator)
        target = read_labels(y, table.n_rows) if is_classes else read_numbers(y, table.n_rows)
        weight = read_weight(sample_weight, table.n_rows)
        kept = np.flatnonzero(weight > 0)
        table, target, weight = table.rows(kept), target[kept], weight[kept]
        if len(kept) < 3:
            raise ValueError(
                f"Tuning needs at least 3 rows, to learn, to stop and to judge by, but got {len(kept)}."
            )
        rng = np.random.default_rng(seed)
        learn, judge = split_rows(target if is_classes else np.zeros(len(kept)), valid_fraction, rng)
        rows = _to_array(table)
        held_out = rows[judge] if test_mechanism is None else _hidden(table.rows(judge), test_mechanism, rng)
        return cls(
            Part(rows[learn], target[learn], weight[learn]),
            Part(held_out, target[judge], weight[judge]),
            seed,
        )

    def loss(self, estimator: AnyMethodEstimator) -> float:
        """Loss on the held-out rows of a copy of the estimator, fitted to the others.

        The root mean squared error in standard deviations of the target, or the log loss.
        """
        # The shift, if there is one, is on purpose: a warning about it would be no news.
        model = clone(estimator).set_params(random_state=self.seed, on_unseen_missing="ignore", verbose=False)
        model.fit(self.learn.rows, self.learn.target, self.learn.weight)
        task = model.task_
        if is_classifier(model):
            outputs = np.log(np.maximum(model.predict_proba(self.judge.rows), np.finfo(np.float64).tiny))
            return task.loss(outputs, task.encode(self.judge.target), self.judge.weight)
        outputs = task.encode(model.predict(self.judge.rows))
        return float(np.sqrt(task.loss(outputs, task.encode(self.judge.target), self.judge.weight)))

    def fingerprint(self) -> str:
        """A short text that another table, target, weight, split or hole would change."""
        digest = hashlib.sha256()
        for part in (self.learn, self.judge):
            for array in (part.rows, part.target, part.weight):
                digest.update(f"{array.shape} {array.dtype.kind}".encode())
                is_text = array.dtype.kind in "OU"
                digest.update(
                    repr(array.tolist()).encode() if is_text else np.ascontiguousarray(array).tobytes()
                )
        return digest.hexdigest()[:12]


def _to_array(table: Table) -> NDArray:
    """One array of all columns, of numbers where all columns are."""
    kind = np.result_type(*table.columns) if table.columns else np.float64
    return np.stack([column.astype(kind) for column in table.columns], axis=1)


def _hidden(table: Table, mechanism: Mechanism, rng: Rng) -> NDArray:
    """The rows with cells hidden by a mechanism, which takes numbers: entries of text all count as zero."""
    numbers = np.stack(
        [
            column if column.dtype.kind == "f" else np.where(missing_cells(column), np.nan, 0.0)
            for column in table.columns
        ],
        axis=1,
    )
    rows = _to_array(table)
    # Also beside text, NaN is read as missing.
    rows[~mechanism.draw(numbers, rng)] = np.nan
    return rows
