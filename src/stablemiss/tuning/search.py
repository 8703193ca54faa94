"""Which hyper-parameters to try next, and what came of those that were tried."""

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

ENDED = (TrialState.COMPLETE, TrialState.FAIL)


@dataclass(frozen=True)
class Trial:
    """Hyper-parameters that were tried, and what came of it.

    Attributes
    ----------
    number : int
        Trials are numbered as they begin. A number is absent where a process was killed.
    params : dict
        The searched hyper-parameters.
    loss : float or None
        On the held-out rows; None if the trial failed.
    failure : str or None
        Why it failed, if it did.
    seconds : float
    is_given : bool
        Whether these are the hyper-parameters with which the search was begun, and to be compared with.
    """

    number: int
    params: dict[str, Any]
    loss: float | None
    failure: str | None
    seconds: float
    is_given: bool


class Search:
    """One process's view of a study: ask it what to try, tell it what came out.

    Parameters
    ----------
    path : Path, optional
        File of the study; None keeps it in memory.
    about : dict
        What makes it this study and no other.
    space : Space
        What is searched.
    given : dict
        The values, one per name in `space`, that are tried first.
    seed : int
        Fixes what is proposed, given what came out before.
    """

    def __init__(
        self, path: Path | None, about: dict[str, str], space: Space, given: dict[str, Any], seed: int
    ):
        self._space = space
        self._given = given
        self._study = open_study(path, about, SeededByNumber(seed))
        # The values given need not lie in the space; those that do tell the sampler something.
        self._inside = {
            name: _to_label(space[name], value) for name, value in given.items() if value in space[name]
        }
        waits_or_ended = self._study.get_trials(deepcopy=False, states=(*ENDED, TrialState.WAITING))
        if not any(_is_given(trial) for trial in waits_or_ended):
            # Again if the process that had it was killed: the search shall not end with anything worse.
            self._study.enqueue_trial(self._inside, user_attrs={"given": True})

    def n_ended(self) -> int:
        """Trials, of all processes, that gave a loss or failed; not those that run, or were killed."""
        return len(self._ended())

    def ask(self) -> tuple[optuna.Trial, dict[str, Any]]:
        """A new trial, and the hyper-parameters to try in it."""
        trial = self._study.ask()
        if _is_given(trial):
            for name in self._inside:
                _suggest(trial, name, self._space[name])
            return trial, self._given
        return trial, {name: _suggest(trial, name, where) for name, where in self._space.items()}

    def end_like_twin(self, trial: optuna.Trial) -> bool:
        """End a trial at once, as one with the same hyper-parameters did, if there was one."""
        if len(trial.params) < len(self._space):
            return False
        others = self._study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        twin = next((other for other in others if other.params == trial.params), None)
        if twin is not None:
            self.tell(trial, twin.value)
        return twin is not None

    def tell(self, trial: optuna.Trial, loss: float | None, failure: str | None = None) -> None:
        """The trial ended with a loss, or failed for a reason."""
        if loss is None or not np.isfinite(loss):
            trial.set_user_attr("failure", failure or f"the loss is {loss}")
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, loss)

    def least_loss(self) -> float:
        """Of all trials that ended; infinite while there are none."""
        return min((trial.value for trial in self._ended() if trial.value is not None), default=math.inf)

    def trials(self) -> list[Trial]:
        """All that ended, in the order in which they began."""
        return [
            Trial(
                number=trial.number,
                params={
                    **self._given,
                    **{name: _from_label(self._space[name], label) for name, label in trial.params.items()},
                },
                loss=trial.value,
                failure=trial.user_attrs.get("failure"),
                seconds=trial.duration.total_seconds() if trial.duration else 0.0,
                is_given=_is_given(trial),
            )
            for trial in self._ended()
        ]

    def _ended(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=ENDED)


class SeededByNumber(BaseSampler):
    """Optuna's tree-structured Parzen estimator, with random numbers of its own for each trial.

    So a search that ended between two trials goes on as if it had not, instead of proposing once more what
    the same seed proposed before; and processes with the same seed do not propose the same.
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


def _is_given(trial: optuna.Trial | FrozenTrial) -> bool:
    return bool(trial.user_attrs.get("given"))


def _suggest(trial: optuna.Trial, name: str, where: Range | Choice) -> Any:
    if isinstance(where, Choice):
        label = trial.suggest_categorical(name, [repr(value) for value in where.values])
        return _from_label(where, label)
    if where.is_whole:
        return trial.suggest_int(name, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(name, where.low, where.high, log=where.log)


def _to_label(where: Range | Choice, value: Any) -> Any:
    """A value as the study's file holds it: choices as text, because they may be tuples."""
    if isinstance(where, Choice):
        return repr(where.values[where.values.index(to_tuples(value))])
    return int(value) if where.is_whole else float(value)


def _from_label(where: Range | Choice, label: Any) -> Any:
    if isinstance(where, Choice):
        return next(value for value in where.values if repr(value) == label)
    return label
