"""Proposes hyper-parameters and records the results of trials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from stablemiss.base.search_space import Choice, Range, Space, to_tuples
from stablemiss.tuning.journal import open_study

FINISHED = (TrialState.COMPLETE, TrialState.FAIL)


@dataclass(frozen=True)
class Trial:
    """One set of hyper-parameters and its result.

    Attributes
    ----------
    number : int
        Trials are numbered in the order in which they start. Trials of killed processes leave gaps.
    params : dict
        The searched hyper-parameters.
    loss : float or None
        Loss on the validation rows; None if the trial failed.
    failure : str or None
        Reason for the failure, if the trial failed.
    seconds : float
        Duration.
    is_initial : bool
        Whether these are the hyper-parameters of the estimator passed to `tune`, the baseline of the search.
    finished : str, default=""
        Local time in ISO format.

    See Also
    --------
    TuningResult : All trials of a search.
    """

    number: int
    params: dict[str, Any]
    loss: float | None
    failure: str | None
    seconds: float
    is_initial: bool
    finished: str = ""


class Search:
    """Ask-and-tell interface of one process to an optuna study.

    Parameters
    ----------
    path : Path or None
        File of the study; None keeps it in memory.
    settings : dict
        Settings of the search, stored in the file. A later search with other settings is rejected.
    space : Space
        The search space.
    initial : dict
        Hyper-parameters of the first trial, one for each name in `space`.
    seed : int
        Random seed of the proposals.
    """

    def __init__(
        self, path: Path | None, settings: dict[str, str], space: Space, initial: dict[str, Any], seed: int
    ):
        self._space = space
        self._initial = initial
        self._study = open_study(path, settings, TrialSeededSampler(seed))
        # The initial values may lie outside the space; the sampler can only use those inside.
        self._initial_in_space = {
            name: _to_stored(space[name], value) for name, value in initial.items() if value in space[name]
        }
        waiting_or_finished = self._study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.WAITING))
        if not any(_is_initial(trial) for trial in waiting_or_finished):
            # Enqueued again if the process of the initial trial was killed, because the result must never be
            # worse than the initial values.
            self._study.enqueue_trial(self._initial_in_space, user_attrs={"initial": True})

    def n_finished(self) -> int:
        """Number of completed or failed trials, in all processes; running and killed ones do not count."""
        return len(self._finished())

    def ask(self) -> tuple[optuna.Trial, dict[str, Any]]:
        """Start a trial; returns it and its hyper-parameters."""
        trial = self._study.ask()
        if _is_initial(trial):
            for name in self._initial_in_space:
                _suggest(trial, name, self._space[name])
            return trial, self._initial
        return trial, {name: _suggest(trial, name, domain) for name, domain in self._space.items()}

    def reuse_loss(self, trial: optuna.Trial) -> bool:
        """Finish a trial with the loss of an earlier one that had the same hyper-parameters.

        Returns False if there is no such trial.
        """
        if len(trial.params) < len(self._space):
            return False
        completed = self._study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        duplicate = next((earlier for earlier in completed if earlier.params == trial.params), None)
        if duplicate is not None:
            self.tell(trial, duplicate.value)
        return duplicate is not None

    def tell(self, trial: optuna.Trial, loss: float | None, failure: str | None = None) -> None:
        """Finish a trial with its loss, or with the reason for its failure.

        Parameters
        ----------
        trial : optuna.Trial
            The trial, from `ask`.
        loss : float or None
            Its loss. None, NaN or infinity mean that it failed.
        failure : str, default=None
            Reason for the failure.
        """
        if loss is None or not np.isfinite(loss):
            trial.set_user_attr("failure", failure or f"the loss is {loss}")
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, loss)

    def best_loss(self) -> float:
        """The lowest loss so far; infinite if there is none."""
        return min((trial.value for trial in self._finished() if trial.value is not None), default=math.inf)

    def trials(self) -> list[Trial]:
        """All finished trials, in the order in which they started."""
        return [
            Trial(
                number=trial.number,
                params={
                    **self._initial,
                    **{
                        name: _from_stored(self._space[name], stored) for name, stored in trial.params.items()
                    },
                },
                loss=trial.value,
                failure=trial.user_attrs.get("failure"),
                seconds=trial.duration.total_seconds() if trial.duration else 0.0,
                is_initial=_is_initial(trial),
                finished=trial.datetime_complete.isoformat() if trial.datetime_complete else "",
            )
            for trial in self._finished()
        ]

    def _finished(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=FINISHED)


class TrialSeededSampler(BaseSampler):
    """Optuna's tree-structured Parzen estimator, with a separate random seed for each trial number.

    A resumed search therefore proposes the same trials as an uninterrupted one, and several processes with
    the same seed propose different trials.

    Parameters
    ----------
    seed : int
        Random seed of the search.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._tpe = TPESampler(seed=seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        sequence = np.random.SeedSequence([self._seed, trial.number])
        self._tpe = TPESampler(seed=int(sequence.generate_state(1)[0]))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)


def _is_initial(trial: optuna.Trial | FrozenTrial) -> bool:
    return bool(trial.user_attrs.get("initial"))


def _suggest(trial: optuna.Trial, name: str, domain: Range | Choice) -> Any:
    if isinstance(domain, Choice):
        stored = trial.suggest_categorical(name, [repr(value) for value in domain.values])
        return _from_stored(domain, stored)
    if domain.is_integer:
        return trial.suggest_int(name, int(domain.low), int(domain.high), log=domain.log)
    return trial.suggest_float(name, domain.low, domain.high, log=domain.log)


def _to_stored(domain: Range | Choice, value: Any) -> Any:
    """Convert a value for storage; choices become text, because they may be tuples."""
    if isinstance(domain, Choice):
        return repr(domain.values[domain.values.index(to_tuples(value))])
    return int(value) if domain.is_integer else float(value)


def _from_stored(domain: Range | Choice, stored: Any) -> Any:
    """The inverse of `_to_stored`."""
    if isinstance(domain, Choice):
        return next(value for value in domain.values if repr(value) == stored)
    return stored
