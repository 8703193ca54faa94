"""Boosted trees of AnyMask on rows that need not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.base import clone

from stablemiss.anymask.fit_data import FitData, limit_copies, with_masked_copies
from stablemiss.anymask.mixture_trees import (
    MIN_DELTA,
    RESIDUAL_DESCRIPTION,
    MixtureTreesPredictor,
    names_of_trees,
    tree_rows,
)
from stablemiss.anymask.plan import RESIDUAL_BOOSTING
from stablemiss.base.boosted_trees import (
    BINARY,
    BoostingPredictor,
    TreeData,
    min_leaf_rows,
    objective_of,
)
from stablemiss.base.cluster_trees import boost_on_cluster
from stablemiss.base.method import Predictor
from stablemiss.base.row_stream import RowStream
from stablemiss.base.streamed_trees import TreeStream, boost_streamed, limit_trees
from stablemiss.data import MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.missingness import MaskSource
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification


def fit_streamed_boosting(
    method: Boosting,
    mixture: EMMixturePredictor | None,
    data: FitData,
    stream: RowStream,
    masked_copies: int,
    rng: Rng,
    report: Callable[[str], Progress],
    n_threads: int | None = None,
) -> dict[str, Predictor]:
    """Like `fit_boosting`, on all rows of a stream and masked copies of them.

    Parameters
    ----------
    method, mixture, rng, report, n_threads
        As in `fit_boosting`.
    data : FitData
        A uniform sample of the rows, from which histogram bins are determined, and validation rows.
    stream : RowStream
        All training rows.
    masked_copies : int
        Number of masked copies of each row; fewer if there are many rows.
    """
    trees = _Trees(method, mixture, data, stream, masked_copies, rng, n_threads)
    names = names_of_trees(data.task, mixture is not None)
    return {name: trees.fit(name == RESIDUAL_BOOSTING, report(name)) for name in names}


class _Trees:
    """The trees of `fit_streamed_boosting`, whose parameters it has."""

    def __init__(
        self,
        boosting: Boosting,
        mixture: EMMixturePredictor | None,
        data: FitData,
        stream: RowStream,
        masked_copies: int,
        rng: Rng,
        n_threads: int | None,
    ):
        self.boosting = clone(boosting).set_params(n_trees=limit_trees(boosting))
        self.mixture, self.data, self.stream = mixture, data, stream
        self.n_copies = limit_copies(masked_copies, stream.n_rows, stream.n_columns)
        self.seed = draw_seed(rng)
        self.sample = data.train.keep_where(data.augmentation.draw(len(data.train), rng))
        self.valid = with_masked_copies(data.held_out, data.augmentation, masked_copies, rng)
        min_rows = min_leaf_rows(boosting, stream.n_rows)
        self._boost = boost_streamed if stream.client is None else boost_on_cluster
        self.params = boosting.lightgbm_params(self.sample, min_rows, rng)
        # The sample may be small, but there are many rows.
        self.params["num_threads"] = n_threads or 0

    def fit(self, is_residual: bool, progress: Progress) -> Predictor:
        """Trees that start from a constant, or from the predictions of the mixture."""
        task = self.data.task
        objective = objective_of(task)
        params = self.params | {"objective": objective.split()[0]}
        if isinstance(task, Classification):
            params["num_class"] = 1 if objective == BINARY else task.d_output
        settings = (MIN_DELTA, RESIDUAL_DESCRIPTION) if is_residual else ()
        rows = self._rows(is_residual)
        models = self._boost(self.boosting, params, rows, progress, *settings)
        trees = BoostingPredictor(models, rows.sample.table.shape[1], objective)
        return trees if self.mixture is None else MixtureTreesPredictor(self.mixture, trees, is_residual)

    def _rows(self, is_residual: bool) -> TreeStream:
        to_trees = partial(_to_trees, self.mixture, is_residual)
        return TreeStream(
            self.stream,
            partial(_tree_rows, self.data.augmentation, self.n_copies, to_trees, self.seed),
            self.stream.n_rows * (1 + self.n_copies),
            to_trees(self.sample),
            to_trees(self.valid),
        )


def _tree_rows(
    augmentation: MaskSource,
    n_copies: int,
    to_trees: Callable[[MaskedData], TreeData],
    seed: int,
    data: MaskedData,
    number: int,
) -> TreeData:
    """The rows of a batch for trees: with masked copies, or masked themselves if there are too many rows."""
    rng = np.random.default_rng([seed, number])
    if n_copies:
        return to_trees(augmentation.copies(data, n_copies, rng))
    return to_trees(data.keep_where(augmentation.draw(len(data), rng)))


def _to_trees(mixture: EMMixturePredictor | None, is_residual: bool, rows: MaskedData) -> TreeData:
    return TreeData.of(rows) if mixture is None else tree_rows(mixture, rows, is_residual)
