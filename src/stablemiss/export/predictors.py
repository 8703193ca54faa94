"""Predictors of all methods as tensor operations: one function for each kind of predictor."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from stablemiss.anymask import AnyMaskPredictor, MixtureTreesPredictor
from stablemiss.anymask.plan import MIXTURE
from stablemiss.base.boosted_trees import BoostingPredictor
from stablemiss.base.linear import LinearPredictor
from stablemiss.base.method import Predictor
from stablemiss.base.network import NetworkPredictor
from stablemiss.export.graph import CannotExportError, Graph
from stablemiss.export.mixtures import condition, log_likelihood, mean_and_deviation, with_copies
from stablemiss.export.networks import add_column_network, add_network
from stablemiss.export.rows import Rows
from stablemiss.export.trees import add_trees
from stablemiss.methods.column_net import ColumnNetPredictor
from stablemiss.methods.constant import ConstantPredictor
from stablemiss.methods.em_mixture import DECIMALS, EMMixturePredictor
from stablemiss.methods.iterative_imputer import IterativeImputerPredictor
from stablemiss.methods.pattern_submodels import PatternSubmodelsPredictor
from stablemiss.mixture import GaussianMixture


@singledispatch
def add_predictor(predictor: Predictor, graph: Graph, rows: Rows) -> str:
    """Raw outputs (n, d_output) of a predictor.

    For classes they may differ from `Predictor.predict` by a number that is the same for all classes of a
    row.

    Parameters
    ----------
    predictor : Predictor
    graph : Graph
    rows : Rows
        Encoded rows.
    """
    raise CannotExportError(
        f"{type(predictor).__name__} cannot be exported to ONNX. Use AnyMask, for example."
    )


@add_predictor.register
def _constant(predictor: ConstantPredictor, graph: Graph, rows: Rows) -> str:
    zero = graph.op("Mul", graph.columns(rows.values, 0, 1), 0.0)
    return graph.op("Add", zero, predictor.output)


@add_predictor.register
def _linear(predictor: LinearPredictor, graph: Graph, rows: Rows) -> str:
    centred = graph.op("Where", rows.mask, graph.op("Sub", rows.values, predictor.means), 0.0)
    if predictor.use_mask:
        centred = graph.op("Concat", centred, rows.observed(graph), axis=1)
    return graph.op("Add", graph.op("MatMul", centred, predictor.coefficients), predictor.intercept)


@add_predictor.register
def _boosting(predictor: BoostingPredictor, graph: Graph, rows: Rows) -> str:
    return _boosting_scores(predictor, graph, rows.with_nan(graph))


def _boosting_scores(predictor: BoostingPredictor, graph: Graph, table: str) -> str:
    n_scores = predictor.boosters[0].num_model_per_iteration()
    scores = add_trees(graph, predictor.models, table, n_scores)
    if not predictor.is_binary:
        return scores
    return graph.op("Concat", graph.op("Mul", scores, 0.0), scores, axis=1)


@add_predictor.register
def _iterative_imputer(predictor: IterativeImputerPredictor, graph: Graph, rows: Rows) -> str:
    imputation, observed = predictor.imputation, rows.mask
    completed = graph.op("Where", observed, rows.values, imputation.mean)
    is_missing = graph.op("Not", observed)
    for column, coefficients, intercept in zip(
        imputation.order, imputation.coefficients, imputation.intercepts, strict=True
    ):
        imputed = graph.op("Add", graph.op("MatMul", completed, coefficients[:, None]), intercept)
        is_replaced = graph.op("And", is_missing, np.arange(rows.n_columns) == column)
        completed = graph.op("Where", is_replaced, imputed, completed)
    if predictor.add_indicator:
        completed = graph.op("Concat", completed, rows.observed(graph), axis=1)
    return _boosting_scores(predictor.trees, graph, completed)


@add_predictor.register
def _pattern_submodels(predictor: PatternSubmodelsPredictor, graph: Graph, rows: Rows) -> str:
    moments, d, observed = predictor.moments, rows.n_columns, rows.observed(graph)
    d_output = len(moments.base)
    if moments.is_classes:
        # Linear discriminant analysis is Bayes' rule for Gaussians with one covariance.
        means = moments.mean + moments.cross.T
        covariances = np.repeat(moments.covariance[None], d_output, axis=0)
        mixture = GaussianMixture(np.ones(d_output), means, covariances)
        outputs = graph.op(
            "Add", condition(graph, mixture, rows.values, observed, d).log_density, moments.base
        )
    else:
        # The variances of the targets have no influence on their conditional mean.
        covariance = np.block([[moments.covariance, moments.cross], [moments.cross.T, np.eye(d_output)]])
        mean = np.concatenate([moments.mean, moments.base])
        mixture = GaussianMixture(np.ones(1), mean[None], covariance[None])
        conditioned = condition(graph, mixture, rows.values, observed, d)
        assert conditioned.mean is not None
        outputs = graph.op("Squeeze", conditioned.mean, [1])
    if not len(predictor.patterns):
        return outputs
    # Number of columns in which a row differs from each pattern: m (1 − p) + (1 − m) p = m (1 − 2 p) + p.
    patterns = predictor.patterns.astype(np.float64)
    n_different = graph.op("Add", graph.op("MatMul", observed, 1 - 2 * patterns.T), patterns.sum(axis=1))
    is_pattern = graph.op("Cast", graph.op("Less", n_different, 0.5), to=_DOUBLE)
    coefficients = predictor.coefficients.transpose(1, 0, 2)
    submodels = graph.op("MatMul", rows.values, coefficients.reshape(d, -1))
    submodels = graph.op("Reshape", submodels, [0, len(patterns), d_output])
    submodels = graph.op("Add", submodels, predictor.intercepts)
    chosen = graph.total(graph.op("Mul", submodels, graph.op("Unsqueeze", is_pattern, [2])), axis=1)
    has_pattern = graph.op("Greater", graph.total(is_pattern, axis=1, keepdims=1), 0.5)
    return graph.op("Where", has_pattern, chosen, outputs)


@add_predictor.register
def _em_mixture(predictor: EMMixturePredictor, graph: Graph, rows: Rows) -> str:
    observed = rows.observed(graph)
    if predictor.log_shares is None:
        return mean_and_deviation(graph, predictor.mixtures[0], rows.values, observed, rows.n_columns)[0]
    tied, *separate = predictor.mixtures
    tied_densities = condition(graph, tied, rows.values, observed, rows.n_columns).log_density
    densities = [log_likelihood(graph, mixture, rows.values, observed) for mixture in separate]
    first, second = predictor.inverse_temperature
    weighted = graph.op("Mul", graph.op("Concat", *densities, axis=1), second)
    outputs = graph.op("Add", graph.op("Mul", tied_densities, first), weighted)
    return graph.op("Add", outputs, predictor.log_shares)


@add_predictor.register
def _column_net(predictor: ColumnNetPredictor, graph: Graph, rows: Rows) -> str:
    return add_column_network(graph, predictor.network, rows)


@add_predictor.register
def _network(predictor: NetworkPredictor, graph: Graph, rows: Rows) -> str:
    return add_network(graph, predictor.network, rows)


@add_predictor.register
def _anymask(predictor: AnyMaskPredictor, graph: Graph, rows: Rows) -> str:
    return add_anymask(graph, predictor, rows)[0]


def add_anymask(graph: Graph, predictor: AnyMaskPredictor, rows: Rows) -> tuple[str, str | None]:
    """Raw outputs (n, d_output) of AnyMask, and the standard deviation of numbers under its mixture."""
    outputs: dict[str, str] = {}
    mixture = predictor.members.get(MIXTURE)
    deviation: str | None = None
    completed = ""
    if isinstance(mixture, EMMixturePredictor):
        has_trees = any(isinstance(member, MixtureTreesPredictor) for member in predictor.members.values())
        outputs[MIXTURE], deviation, completed = _add_mixture(graph, mixture, rows, has_trees)
    for name, member in predictor.members.items():
        if isinstance(member, MixtureTreesPredictor):
            predictions = [outputs[MIXTURE]] if member.is_residual else []
            table = graph.op("Concat", rows.with_nan(graph), completed, *predictions, axis=1)
            scores = _boosting_scores(member.trees, graph, table)
            outputs[name] = graph.op("Add", outputs[MIXTURE], scores) if member.is_residual else scores
        elif name not in outputs:
            outputs[name] = add_predictor(member, graph, rows)
    # The share of the columns that are observed interpolates between two sets of weights.
    _, first = np.unique(predictor.calibrator.groups, return_index=True)
    observed = graph.op("Gather", rows.observed(graph), first, axis=1)
    fraction = graph.op("ReduceMean", observed, [1], keepdims=1)
    rest = graph.op("Sub", 1.0, fraction)
    terms = []
    for i, output in enumerate(outputs[name] for name in predictor.members):
        if predictor.bounds is None:
            output = graph.op("Softmax", output, axis=1)
        else:
            output = graph.op("Min", graph.op("Max", output, predictor.bounds[0]), predictor.bounds[1])
        empty, complete = predictor.member_weights[:, i]
        weight = graph.op(
            "Add", graph.op("Mul", rest, empty[None]), graph.op("Mul", fraction, complete[None])
        )
        terms.append(graph.op("Mul", weight, output))
    combined = terms[0]
    for term in terms[1:]:
        combined = graph.op("Add", combined, term)
    if predictor.is_classes:
        combined = graph.op("Log", graph.op("Max", combined, 1e-300))
    return combined, deviation


def _add_mixture(
    graph: Graph, mixture: EMMixturePredictor, rows: Rows, has_trees: bool
) -> tuple[str, str | None, str]:
    """Outputs of the mixture, the standard deviation of numbers, and completed rows if trees read them."""
    observed, d = rows.observed(graph), rows.n_columns
    if mixture.log_shares is None:
        joint = mixture.mixtures[0]
        t = joint.means.shape[1] - d
        mean, deviation = mean_and_deviation(
            graph, with_copies(joint, d) if has_trees else joint, rows.values, observed, d
        )
        outputs, deviation = graph.columns(mean, 0, t), graph.columns(deviation, 0, t)
        expected = graph.columns(mean, t, t + d) if has_trees else ""
    else:
        outputs, deviation = add_predictor(mixture, graph, rows), None
        tied = with_copies(mixture.tied, d)
        expected = mean_and_deviation(graph, tied, rows.values, observed, d)[0] if has_trees else ""
    if not has_trees:
        return outputs, deviation, ""
    return outputs, deviation, graph.op("Where", rows.mask, rows.values, rounded(graph, expected))


def rounded(graph: Graph, numbers: str) -> str:
    """Numbers as trees read them: equal rows must not differ by rounding errors."""
    return graph.op("Div", graph.op("Round", graph.op("Mul", numbers, 10.0**DECIMALS)), 10.0**DECIMALS)


# onnx.TensorProto.DOUBLE, without the import.
_DOUBLE = 11
