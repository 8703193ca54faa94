"""Fitting AnyMask to rows that need not fit into memory.

The mixture and the trees are fitted to all rows. Everything else uses a uniform sample of bounded size: the
choice of the number of components, histogram bins, feature importance, the network, stacking and calibration.
The network makes a fixed number of steps on small batches under new masks, so that it sees each row of the
sample a few times at most; more rows would replace other masks of the same rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import clone

from stablemiss.anymask.importance import feature_importance
from stablemiss.anymask.members import (
    MAX_COPIED_CELLS,
    MAX_COPIED_ROWS,
    RESIDUAL_BOOSTING,
    FitData,
    mixture_subset,
    names_of_members,
    with_masked_copies,
)
from stablemiss.anymask.method import (
    STACKING,
    AnyMask,
    AnyMaskPredictor,
    calibration_subset,
    stack_and_calibrate,
)
from stablemiss.anymask.plan import BOOSTING, MIXTURE, make_plan
from stablemiss.anymask.residual_boosting import (
    MIN_DELTA,
    OBJECTIVE,
    ResidualBoostingPredictor,
    tree_features,
)
from stablemiss.anymask.steps import Steps
from stablemiss.base.boosted_trees import (
    BINARY,
    BoostingPredictor,
    TreeData,
    lightgbm_params,
    min_leaf_rows,
    objective_of,
)
from stablemiss.base.cluster_trees import boost_on_cluster
from stablemiss.base.method import Predictor
from stablemiss.base.row_stream import RowStream
from stablemiss.base.streamed_trees import TreeStream, boost_streamed, limit_trees
from stablemiss.data import MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.constant import Constant
from stablemiss.methods.em_mixture import EMMixture, EMMixturePredictor
from stablemiss.missingness import MaskAugmentation, MaskSource
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task


def fit_streamed(
    method: AnyMask,
    sample: MaskedData,
    valid: MaskedData,
    stream: RowStream,
    task: Task,
    rng: Rng,
    progress: Progress,
) -> AnyMaskPredictor:
    """Fit AnyMask to all rows of a stream.

    Parameters
    ----------
    method : AnyMask
        The hyper-parameters.
    sample : MaskedData
        A uniform sample of the training rows.
    valid : MaskedData
        Validation rows, which are not in the stream.
    stream : RowStream
        All training rows.
    task, rng, progress
        As in `Method.fit`.
    """
    plan = make_plan(method.budget)
    methods = plan.select(method.members, sample.n_columns)
    importance = feature_importance(sample, task, rng)
    augmentation = MaskAugmentation.of(sample.groups, importance, method.may_vanish_in(sample))
    data = FitData(sample, calibration_subset(valid, rng), task, augmentation)
    members: dict[str, Predictor] = {"constant": Constant().fit(sample, valid, task, rng, progress)}
    steps = Steps([*names_of_members(methods, task), STACKING], progress)
    seed = draw_seed(rng)
    # One generator per member, as in `fit_members`.
    rngs = {name: np.random.default_rng([seed, number]) for number, name in enumerate(plan.methods)}
    mixture: EMMixturePredictor | None = None
    if isinstance(method_ := methods.get(MIXTURE), EMMixture):
        subset = mixture_subset(sample, rngs[MIXTURE])
        mixture = method_.fit(subset, data.valid, task, rngs[MIXTURE], steps.report(MIXTURE), stream)
        members[MIXTURE] = mixture
    if isinstance(boosting := methods.get(BOOSTING), Boosting):
        trees = _Trees(boosting, data, stream, plan.masked_copies, rngs[BOOSTING])
        members[BOOSTING] = trees.fit(steps.report(BOOSTING))
        if mixture is not None and not isinstance(task, Classification):
            members[RESIDUAL_BOOSTING] = trees.fit_residuals(mixture, steps.report(RESIDUAL_BOOSTING))
    for name, net in methods.items():
        if isinstance(net, ColumnNet):
            members[name] = net.fit(sample, data.valid, task, rngs[name], steps.report(name), augmentation)
    return stack_and_calibrate(members, data, rng, steps.report(STACKING))


class _Trees:
    """Boosted trees on the rows of a stream and masked copies of them.

    Parameters
    ----------
    boosting : Boosting
        The hyper-parameters.
    data : FitData
        A sample of the rows, and validation rows.
    stream : RowStream
        All training rows.
    masked_copies : int
        Number of masked copies of each row; fewer if there are many rows.
    rng : numpy Generator
    """

    def __init__(self, boosting: Boosting, data: FitData, stream: RowStream, masked_copies: int, rng: Rng):
        self.boosting = clone(boosting).set_params(n_trees=limit_trees(boosting))
        self.data, self.stream = data, stream
        n, n_cells = stream.n_rows, stream.n_rows * stream.n_columns
        self.n_copies = max(0, min(masked_copies, MAX_COPIED_ROWS // n, MAX_COPIED_CELLS // n_cells - 1))
        self.seed = draw_seed(rng)
        self.sample = data.train.keep_where(data.augmentation.draw(len(data.train), rng))
        self.valid = with_masked_copies(data.held_out, data.augmentation, masked_copies, rng)
        min_rows = min_leaf_rows(boosting, n)
        self._boost = boost_streamed if stream.client is None else boost_on_cluster
        self.params = lightgbm_params(boosting, self.sample, min_rows, rng) | {"num_threads": 0}

    def fit(self, progress: Progress) -> BoostingPredictor:
        """Trees that start from a constant."""
        task = self.data.task
        objective = objective_of(task)
        params = self.params | {"objective": objective.split()[0]}
        if isinstance(task, Classification):
            params["num_class"] = 1 if objective == BINARY else task.d_output
        models = self._boost(self.boosting, params, self._rows(None), progress)
        return BoostingPredictor(models, self.stream.n_columns, objective)

    def fit_residuals(self, mixture: EMMixturePredictor, progress: Progress) -> ResidualBoostingPredictor:
        """Trees that start from the predictions of the mixture."""
        models = self._boost(
            self.boosting,
            self.params | {"objective": OBJECTIVE},
            self._rows(mixture),
            progress,
            MIN_DELTA,
            "boosted trees on the mixture's residuals",
        )
        return ResidualBoostingPredictor(mixture, models, self.stream.n_columns)

    def _rows(self, mixture: EMMixturePredictor | None) -> TreeStream:
        return TreeStream(
            self.stream,
            partial(_tree_rows, self.data.augmentation, self.n_copies, mixture, self.seed),
            self.stream.n_rows * (1 + self.n_copies),
            _to_trees(self.sample, mixture),
            _to_trees(self.valid, mixture),
        )


def _tree_rows(
    augmentation: MaskSource,
    n_copies: int,
    mixture: EMMixturePredictor | None,
    seed: int,
    data: MaskedData,
    number: int,
) -> TreeData:
    """The rows of a batch for trees: with masked copies, or masked themselves if there are too many rows."""
    rng = np.random.default_rng([seed, number])
    if n_copies:
        return _to_trees(augmentation.copies(data, n_copies, rng), mixture)
    return _to_trees(data.keep_where(augmentation.draw(len(data), rng)), mixture)


def _to_trees(rows: MaskedData, mixture: EMMixturePredictor | None) -> TreeData:
    if mixture is None:
        return TreeData.of(rows)
    init_prediction = mixture.predict(rows.values, rows.mask)
    features = tree_features(rows.values, rows.mask, init_prediction)
    return TreeData(features, rows.target, rows.weight, init_prediction)
