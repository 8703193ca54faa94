"""Search for the hyper-parameters of a method with the lowest loss on validation rows."""

from __future__ import annotations

import math
import os
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import optuna
from sklearn.base import clone, is_classifier

from stablemiss.base.search_space import Choice, Range, Space, to_tuples
from stablemiss.checks import check_integer, check_number, check_path, shown
from stablemiss.estimators.missing import MethodByNameEstimator, method_with_params
from stablemiss.methods import Method
from stablemiss.missingness import Mechanism
from stablemiss.progress import Progress, to_progress
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance
from stablemiss.tuning.holdout import HoldoutSplit
from stablemiss.tuning.journal import quiet_optuna
from stablemiss.tuning.search import Search, Trial
from stablemiss.tuning.workers import ProcessWorkers


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Result of a hyper-parameter search.

    Attributes
    ----------
    params : dict
        Hyper-parameters of the best trial, including those that were not searched. They can be passed to
        ``MissingRegressor(method, params=params)``.
    loss : float
        Loss of the best trial on the validation rows. It is slightly optimistic, because it is the minimum
        over many trials.
    trials : list of Trial
        All finished trials, including failed ones, in the order in which they started.
    initial_estimator : MissingRegressor or MissingClassifier
        Copy of the estimator that was passed to `tune`.
    seed : int
        Random seed of the search.
    settings : dict
        What identifies the search: method, search space, split, fingerprint of the data.

    See Also
    --------
    tune : Runs the search.
    """

    params: dict[str, Any]
    loss: float
    trials: list[Trial]
    initial_estimator: MethodByNameEstimator
    seed: int
    settings: dict[str, str]

    def estimator(self) -> MethodByNameEstimator:
        """An unfitted estimator with the best hyper-parameters."""
        return with_params(self.initial_estimator, self.params)

    def records(self, dataset: str) -> list[Record]:
        """The trials as records, which `stablemiss.results.Store` keeps in a file.

        Versions are those of the calling process, also for trials of earlier processes.

        Parameters
        ----------
        dataset : str
            Name of the table in the records. Give several searches with the same method different names,
            because records with the same key replace each other in a store.
        """
        method = method_with_params(self.initial_estimator.method, self.initial_estimator.params)
        is_classification = is_classifier(self.initial_estimator)
        return [
            Record(
                experiment="tuning",
                dataset=dataset,
                mechanism="training rows",
                level=None,
                instance=trial.number,
                label=method.name,
                seed=self.seed,
                scores=() if trial.loss is None else (Score("validation rows", None, trial.loss),),
                metric="log loss" if is_classification else "rmse in standard deviations",
                failure=trial.failure,
                settings=self.settings,
                config=describe({**method.get_params(deep=False), **trial.params}),
                seconds=trial.seconds,
                **(provenance() | {"finished": trial.finished}),
            )
            for trial in self.trials
        ]


def tune(
    estimator: MethodByNameEstimator,
    X: Any,
    y: Any,
    *,
    n_trials: int = 50,
    study: str | os.PathLike[str] | None = None,
    space: Space | None = None,
    test_mechanism: Mechanism | None = None,
    holdout_fraction: float = 0.2,
    sample_weight: Any = None,
    random_state: int = 0,
    n_jobs: int = 1,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> TuningResult:
    """Search for the hyper-parameters of an estimator's method with the lowest validation loss.

    Every trial is fitted to the same training rows and evaluated on the same validation rows. The loss is the
    root mean squared error in standard deviations of the target, or the log loss. The first trial uses the
    hyper-parameters of `estimator`, so the validation loss of the result is never worse. Further trials are
    proposed by optuna's tree-structured Parzen estimator. Equal hyper-parameters are not fitted twice.

    With a `study` file, every trial is stored when it finishes. Another call with the same file continues the
    search, for example after a crash or with more trials. Several processes can work on the same file at the
    same time, on one machine or on several machines that share the file.

    Parameters
    ----------
    estimator : MissingRegressor or MissingClassifier
        Estimator whose method is tuned. Hyper-parameters outside the search space keep their values.
    X : array-like or data frame of shape (n, d)
        Features, as in the estimator's `fit`. Arrays such as images are refused; `GridSearchCV` searches
        their architectures.
    y : array-like of shape (n,) or (n, d_output)
        Target, as in the estimator's `fit`.
    n_trials : int, default=50
        Total number of finished trials, including failed ones and those already in the file. Trials of
        killed processes do not count. Raising it finds better hyper-parameters and takes proportionally
        longer. The first ten trials are random. If several processes share a file, each may finish one
        additional trial.
    study : path, default=None
        File for the trials. If it belongs to a search with another method, space, table or seed, ValueError
        is raised. None keeps the trials in memory.
    space : dict, default=None
        Name → `Range` or `Choice`. None means the default search space of the method.
    test_mechanism : Mechanism, default=None
        Hides further values of the validation rows, so that hyper-parameters are selected for the missingness
        expected after training. MAR, MNAR and similar mechanisms must already be fitted. None hides nothing.
    holdout_fraction : float, default=0.2
        Share of rows held out as validation rows of the search. Raising it makes the validation loss more
        precise and leaves fewer training rows. For early stopping, the estimator holds out a further
        `validation_fraction` of the training rows.
    sample_weight : array-like of shape (n,), default=None
        Sample weights, as in the estimator's `fit`.
    random_state : int, default=0
        Random seed of the split, the fits and the proposals. With several jobs, proposals also depend on the
        order in which trials finish.
    n_jobs : int, default=1
        Number of trials that run in parallel, in separate processes; -1 means one per core. Raising it makes
        the search faster, but proposals cannot use the results of trials that are still running.
    timeout : float, default=None
        Seconds after which no further trial is started. None means no limit.
    progress : Progress, default=None
        Reports the number of finished trials. None reports nothing.

    Returns
    -------
    TuningResult

    Raises
    ------
    ValueError
        If all trials failed, or the file belongs to another search.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> tuned = tune(MissingRegressor("ols"), X, y, n_trials=3, space={"ridge": Range(1e-3, 1e3, log=True)})
    >>> [trial.is_initial for trial in tuned.trials]
    [True, False, False]
    >>> tuned.loss == min(trial.loss for trial in tuned.trials)
    True
    >>> model = tuned.estimator().fit(X, y)
    """
    if not isinstance(estimator, MethodByNameEstimator):
        raise TypeError(
            "estimator must be a MissingRegressor or a MissingClassifier, such as "
            f"MissingRegressor('boosting'); got {shown(estimator)}."
        )
    _check_arguments(
        {
            "n_trials": n_trials,
            "study": study,
            "test_mechanism": test_mechanism,
            "holdout_fraction": holdout_fraction,
            "random_state": random_state,
            "n_jobs": n_jobs,
            "timeout": timeout,
        }
    )
    progress = to_progress(progress)
    method = method_with_params(estimator.method, estimator.params)
    all_params = method.get_params(deep=False)
    space = method.space if space is None else space
    _check_space(space, method)
    # Sorted, because the random numbers drawn for each name depend on the order of the names.
    space = dict(sorted(space.items()))
    split = HoldoutSplit.of(estimator, X, y, sample_weight, holdout_fraction, test_mechanism, random_state)
    initial = {name: to_tuples(all_params[name]) for name in space}
    settings = {
        "estimator": type(estimator).__name__,
        "method": method.name,
        "space": repr(space),
        "fixed parameters": repr(
            {name: to_tuples(value) for name, value in all_params.items() if name not in space}
            | {
                name: getattr(estimator, name)
                for name in ("validation_fraction", "max_one_hot", "date_features")
            }
        ),
        "first trial": repr(initial),
        "random_state": str(random_state),
        "holdout_fraction": str(holdout_fraction),
        "fingerprint of table, target, weights and test mechanism": split.fingerprint(),
    }
    deadline = math.inf if timeout is None else monotonic() + timeout
    with quiet_optuna():
        search = Search(None if study is None else Path(study), settings, space, initial, random_state)
        progress.start(f"tuning {method.name}", total=n_trials)
        try:
            _run(search, estimator, split, n_trials, n_jobs, deadline, progress)
        finally:
            progress.finish()
        trials = search.trials()
    best = min((trial for trial in trials if trial.loss is not None), key=_loss, default=None)
    if best is None:
        reason = f"; the first failed with {trials[0].failure}" if trials else " before the timeout"
        # The failure is usually a sentence itself.
        raise ValueError(
            f"None of {len(trials)} trials of {method.name!r} succeeded{reason}".rstrip(".") + "."
        )
    fixed = all_params if isinstance(estimator.method, Method) else estimator.params or {}
    return TuningResult(
        {**fixed, **best.params}, _loss(best), trials, clone(estimator), random_state, settings
    )


def _run(
    search: Search,
    estimator: MethodByNameEstimator,
    split: HoldoutSplit,
    n_trials: int,
    n_jobs: int,
    deadline: float,
    progress: Progress,
) -> None:
    """Run trials in parallel until `n_trials` are finished or the deadline has passed."""
    running: dict[Future[float], tuple[optuna.Trial, MethodByNameEstimator]] = {}
    retried: set[int] = set()
    with ProcessWorkers(n_jobs) as workers:
        while True:
            while (
                len(running) < workers.n_jobs
                and search.n_finished() + len(running) < n_trials
                and monotonic() < deadline
            ):
                trial, params = search.ask()
                if not search.reuse_loss(trial):
                    model = with_params(estimator, params)
                    running[workers.submit(split.loss, model)] = trial, model
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                (trial, model), error = running.pop(future), future.exception()
                if error is None:
                    search.tell(trial, future.result())
                elif isinstance(error, BrokenExecutor) and trial.number not in retried:
                    # One retry: the system may have killed this process because others used too much memory.
                    retried.add(trial.number)
                    running[workers.submit(split.loss, model)] = trial, model
                else:
                    search.tell(trial, None, f"{type(error).__name__}: {error}")
            progress.update(search.n_finished(), f"best loss {search.best_loss():.4g}")


def with_params(estimator: MethodByNameEstimator, params: dict[str, Any]) -> MethodByNameEstimator:
    """Return an unfitted copy with some hyper-parameters of its method changed."""
    copy = clone(estimator)
    if isinstance(copy.method, Method):
        copy.method.set_params(**params)
        return copy
    return copy.set_params(params={**(copy.params or {}), **params})


def _loss(trial: Trial) -> float:
    assert trial.loss is not None
    return trial.loss


def _check_arguments(arguments: dict[str, Any]) -> None:
    """Raise an error if an argument of `tune` has the wrong type or value."""
    # A generator or None would give a resumed search another split.
    check_integer(arguments, n_trials=1, random_state=0)
    check_number(arguments, holdout_fraction="(0, 1)")
    check_number(arguments, timeout="[0, inf)", unless=None)
    check_integer(arguments, n_jobs=(1, 4096), unless=-1)
    if arguments["study"] is not None:
        check_path("study", arguments["study"])
    if not isinstance(arguments["test_mechanism"], Mechanism | None):
        raise TypeError(
            "test_mechanism must be a fitted mechanism, such as MCARIndependent(0.5), or None; got "
            f"{shown(arguments['test_mechanism'])}."
        )


def _check_space(space: Space, method: Method) -> None:
    if not isinstance(space, dict):
        raise TypeError(
            "space must be a dictionary, such as {'ridge': Range(1e-3, 1e3, log=True)}, or None; got "
            f"{shown(space)}."
        )
    if not space:
        raise ValueError(
            f"The method {method.name!r} has no default search space. Pass a space such as "
            "{'ridge': Range(1e-3, 1e3, log=True)}, or choose another method."
        )
    known = method.get_params(deep=False)
    for name, domain in space.items():
        if name not in known:
            raise ValueError(
                f"space contains {name!r}, but the hyper-parameters of {method.name!r} are: "
                f"{', '.join(map(repr, known)) or 'none'}."
            )
        if not isinstance(domain, Range | Choice):
            raise ValueError(
                f"space[{name!r}] must be a Range or a Choice from stablemiss.tuning; got {domain!r}."
            )
