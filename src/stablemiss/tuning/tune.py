"""Tune an estimator's method: try hyper-parameters, each on the same rows, and keep the best."""

from __future__ import annotations

import math
import os
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from time import monotonic
from typing import Any

import optuna
from sklearn.base import clone

from stablemiss.base.search_space import Choice, Range, Space, to_tuples
from stablemiss.estimators.missing import AnyMethodEstimator, to_method_with
from stablemiss.methods import Method
from stablemiss.missingness import Mechanism
from stablemiss.progress import NullProgress, Progress
from stablemiss.tuning.held_out import HeldOut
from stablemiss.tuning.journal import quiet
from stablemiss.tuning.search import Search, Trial
from stablemiss.tuning.workers import Workers


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a search found.

    Attributes
    ----------
    params : dict
        Hyper-parameters of the best trial, those that were not searched included: what
        ``MissingRegressor(method, params=params)`` takes.
    loss : float
        Its loss on the held-out rows. Being the least of many it is a little too good to be true.
    trials : list of Trial
        All that ended, with a loss or with a failure, in the order in which they began.
    given : MissingRegressor or MissingClassifier
        The estimator that was tuned, as it was.
    """

    params: dict[str, Any]
    loss: float
    trials: list[Trial]
    given: AnyMethodEstimator

    def estimator(self) -> AnyMethodEstimator:
        """The estimator with the best hyper-parameters, not fitted yet."""
        return with_params(self.given, self.params)


def tune(
    estimator: AnyMethodEstimator,
    X: Any,
    y: Any,
    *,
    n_trials: int = 50,
    study: str | os.PathLike[str] | None = None,
    space: Space | None = None,
    test_mechanism: Mechanism | None = None,
    valid_fraction: float = 0.2,
    sample_weight: Any = None,
    random_state: int = 0,
    n_jobs: int = 1,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Search the hyper-parameters of an estimator's method.

    Every trial fits to the same part of the rows and is judged on the others, by the root mean squared error
    in standard deviations of the target, or by the log loss. The first trial is the estimator as it is given,
    so on these rows tuning never ends worse. What to try next is proposed by optuna's tree-structured Parzen
    estimator; hyper-parameters that were tried already are not fitted again.

    With a `study` file every trial is kept as it ends. Called again with the same file, after a crash or with
    more trials, the search goes on from there; called by several processes at once, on one machine or on
    several that share the file, they work on it together.

    Parameters
    ----------
    estimator : MissingRegressor or MissingClassifier
        Whose method to tune. Hyper-parameters outside the search space keep the values they have here.
    X, y, sample_weight
        As in the estimator's `fit`.
    n_trials : int
        Trials in all that end, with a loss or with a failure, those already in the file included. Trials cut
        off when a process was killed do not count. More find better values, at a cost in proportion; the
        first ten are drawn at random. Of several processes on one file each may end one trial beyond it.
    study : path, optional
        File to keep the trials in. One that was begun for another method, space, table or seed is refused.
    space : dict, optional
        Name → `Range` or `Choice`; by default the method's own `space`.
    test_mechanism : Mechanism, optional
        Hides further cells of the held-out rows, so that trials are judged under the missingness to come;
        with its mechanism, if it has one, already fitted.
    valid_fraction : float
        Share of the rows held out. Raising it judges more surely and leaves fewer rows to learn from.
    random_state : int
        Fixes split, fits and, with one job, all that is proposed.
    n_jobs : int
        Trials at a time, in processes of their own; -1 is one for each core. More proposals are then made
        without knowing the outcome of the others.
    timeout : float, optional
        Seconds after which no further trial is begun.
    progress : Progress, optional
        Told how many trials have ended.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError
        If no trial gave a loss, or the file holds another search.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> tuned = tune(MissingRegressor("ols"), X, y, n_trials=3, space={"ridge": Range(1e-3, 1e3, log=True)})
    >>> [trial.is_given for trial in tuned.trials]
    [True, False, False]
    >>> tuned.loss == min(trial.loss for trial in tuned.trials)
    True
    >>> model = tuned.estimator().fit(X, y)
    """
    _check(estimator, n_trials, valid_fraction, random_state, n_jobs)
    progress = progress or NullProgress()
    method = to_method_with(estimator.method, estimator.params)
    own = method.get_params(deep=False)
    space = method.space if space is None else space
    _check_space(space, method)
    # The order in which names are given says nothing, but decides what is drawn for which.
    space = dict(sorted(space.items()))
    held_out = HeldOut.of(estimator, X, y, sample_weight, valid_fraction, test_mechanism, random_state)
    first = {name: to_tuples(own[name]) for name in space}
    about = {
        "estimator": type(estimator).__name__,
        "method": method.name,
        "space": repr(space),
        "setting of what is not searched": repr(
            {name: to_tuples(value) for name, value in own.items() if name not in space}
            | {name: getattr(estimator, name) for name in ("validation_fraction", "max_one_hot")}
        ),
        "first trial": repr(first),
        "random_state": str(random_state),
        "valid_fraction": str(valid_fraction),
        "fingerprint of table, target, weights and test mechanism": held_out.fingerprint(),
    }
    until = math.inf if timeout is None else monotonic() + timeout
    with quiet():
        search = Search(None if study is None else Path(study), about, space, first, random_state)
        progress.start(f"tuning {method.name}", total=n_trials)
        try:
            _run(search, estimator, held_out, n_trials, n_jobs, until, progress)
        finally:
            progress.finish()
        trials = search.trials()
    best = min((trial for trial in trials if trial.loss is not None), key=_loss, default=None)
    if best is None:
        why = f"; the first: {trials[0].failure}" if trials else " before the timeout"
        raise ValueError(f"None of {len(trials)} trials of {method.name!r} gave a loss{why}.")
    fixed = own if isinstance(estimator.method, Method) else estimator.params or {}
    return Tuned({**fixed, **best.params}, _loss(best), trials, clone(estimator))


def _run(
    search: Search,
    estimator: AnyMethodEstimator,
    held_out: HeldOut,
    n_trials: int,
    n_jobs: int,
    until: float,
    progress: Progress,
) -> None:
    """Trial after trial, as many at a time as there are workers, until there are enough or it is too late."""
    running: dict[Future[float], tuple[optuna.Trial, AnyMethodEstimator]] = {}
    died: set[int] = set()
    with Workers(n_jobs) as workers:
        while True:
            while (
                len(running) < workers.n_jobs
                and search.n_ended() + len(running) < n_trials
                and monotonic() < until
            ):
                trial, params = search.ask()
                if not search.end_like_twin(trial):
                    model = with_params(estimator, params)
                    running[workers.submit(held_out.loss, model)] = trial, model
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                (trial, model), error = running.pop(future), future.exception()
                if error is None:
                    search.tell(trial, future.result())
                elif isinstance(error, BrokenExecutor) and trial.number not in died:
                    # Once more: whose process the system kills for want of memory may be for others to blame.
                    died.add(trial.number)
                    running[workers.submit(held_out.loss, model)] = trial, model
                else:
                    search.tell(trial, None, f"{type(error).__name__}: {error}")
            progress.update(search.n_ended(), f"least loss {search.least_loss():.4g}")


def with_params(estimator: AnyMethodEstimator, params: dict[str, Any]) -> AnyMethodEstimator:
    """A copy, not fitted, with some hyper-parameters of its method set."""
    copy = clone(estimator)
    if isinstance(copy.method, Method):
        copy.method.set_params(**params)
        return copy
    return copy.set_params(params={**(copy.params or {}), **params})


def _loss(trial: Trial) -> float:
    assert trial.loss is not None
    return trial.loss


def _check(
    estimator: AnyMethodEstimator, n_trials: int, valid_fraction: float, random_state: int, n_jobs: int
) -> None:
    if not isinstance(estimator, AnyMethodEstimator):
        raise TypeError(
            "tune takes a MissingRegressor or a MissingClassifier, such as MissingRegressor('boosting'), but "
            f"got {estimator!r}."
        )
    if not isinstance(n_trials, Integral) or n_trials < 1:
        raise ValueError(f"n_trials must be a whole number from 1 on, but is {n_trials!r}.")
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(
            "random_state must be a whole number from 0 on, because a search that goes on later has to draw "
            f"the same split again, but is {random_state!r}."
        )
    if not 0 < valid_fraction < 1:
        raise ValueError(
            f"valid_fraction must lie between 0 and 1, for instance 0.2, but is {valid_fraction!r}."
        )
    if not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a number of processes, or -1 for all cores, but is {n_jobs!r}.")


def _check_space(space: Space, method: Method) -> None:
    if not space:
        raise ValueError(
            f"The method {method.name!r} names nothing to search. Give a space of your own, such as "
            "{'ridge': Range(1e-3, 1e3, log=True)}, or choose another method."
        )
    known = method.get_params(deep=False)
    for name, where in space.items():
        if name not in known:
            raise ValueError(
                f"The space names {name!r}, but the hyper-parameters of {method.name!r} are: "
                f"{', '.join(map(repr, known)) or 'none'}."
            )
        if not isinstance(where, Range | Choice):
            raise ValueError(
                f"The space must give a Range or a Choice for {name!r}, both from stablemiss.tuning, but "
                f"gives {where!r}."
            )
