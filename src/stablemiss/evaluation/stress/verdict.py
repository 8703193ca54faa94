"""What a stress test says, in a few sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stablemiss.evaluation.stress.settings import ALL, OTHER_TABLE, OWN_MASKS

if TYPE_CHECKING:
    from stablemiss.evaluation.stress.result import ModelComparison, StressResult, StressScore

# How a sentence names what is missing under a mechanism.
_PHRASES = {
    "MCAR": "{share} of the values are missing completely at random",
    "window": "windows of adjacent columns, {share} of the values, are missing",
    "MAR": "{share} of the values are missing depending on other columns",
    "MNAR": "{share} of the values are missing, large ones first",
    "outage": "the most informative {share} of the columns are missing",
    OWN_MASKS: "rows also miss what other rows of the table miss ({share} of the values)",
    OTHER_TABLE: "rows miss what those of the other table miss ({share} of the values)",
}


def sentences(result: StressResult) -> list[str]:
    """The comparison of several models, what the best one loses, and when it falls behind a constant."""
    comparison = [_comparison(result)] if result.comparisons else []
    return [*comparison, *_of_model(result, result.models[0])]


def _comparison(result: StressResult) -> str:
    overall = [one for one in result.comparisons if one.mechanism == ALL and math.isfinite(one.difference)]
    if not overall:
        return f"{result.models[0]} is the only model that could predict under all settings."
    # The best of the others is the one to be better than.
    one = min(overall, key=lambda comparison: comparison.other_error)
    n_settings = sum(score.model == one.model for score in result.scores) - 1
    errors = (
        f"{result.metric} {result.number(one.error)} over all {n_settings} settings, "
        f"{relative_text(one)} than that of {one.other}"
    )
    n_models = len(result.models)
    if one.is_clear:
        return f"{one.model} is the most robust of {n_models} models: {errors}."
    return f"No model is clearly the most robust of {n_models}: {one.model} has {errors}."


def relative_text(one: ModelComparison) -> str:
    """A difference between two models relative to the other one, with its 95% interval.

    Examples
    --------
    >>> from stablemiss.evaluation.stress.result import ModelComparison
    >>> relative_text(ModelComparison("a", "b", "all", 9.0, 10.0, -1.0, -1.5, -0.5))
    '10% lower (95% interval 5% to 15%)'
    >>> relative_text(ModelComparison("a", "b", "all", 9.0, 10.0, -1.0, -2.5, 0.5))
    '10% lower (95% interval 5% higher to 25% lower)'
    """
    unit = one.other_error or 1.0
    word, opposite = ("lower", "higher") if one.difference <= 0 else ("higher", "lower")
    near, far = sorted((one.low, one.high), key=abs)
    near_word = f" {opposite}" if near * far < 0 else ""
    far_word = f" {word}" if near_word else ""
    return (
        f"{percent(abs(one.difference) / unit)} {word} (95% interval "
        f"{percent(abs(near) / unit)}{near_word} to {percent(abs(far) / unit)}{far_word})"
    )


def _of_model(result: StressResult, model: str) -> list[str]:
    given = result.baseline(model)
    headline = result.headline(model, result.mechanisms[0])
    numbers = (
        f"{result.metric} {result.number(given.error)} → {result.number(headline.error)}; a constant has "
        f"{result.number(result.constant)}"
    )
    lost = result.lost_share(headline)
    if lost is None:
        return [
            f"{model} is not better than a constant even on the table as given ({result.metric} "
            f"{result.number(given.error)}; a constant has {result.number(result.constant)})."
        ]
    if lost <= 0:
        first = f"{model} loses nothing of its advantage over a constant when {phrase(headline)} ({numbers})"
    elif lost <= 1:
        share = percent(lost)
        first = f"{model} loses {share} of its advantage over a constant when {phrase(headline)} ({numbers})"
    else:
        first = f"{model} is worse than a constant when {phrase(headline)} ({numbers})"
    costs = result.column_costs(model)
    if costs and costs[0].low > 0 and given.error > 0:
        first += (
            f", and losing column {costs[0].column!r} alone raises its {result.metric} by "
            f"{percent(costs[0].cost / given.error)}"
        )
    return [f"{first}.", *_worst(result, model)]


def _worst(result: StressResult, model: str) -> list[str]:
    """The mechanism that makes the model worse than a constant first, if there is one."""
    found = [result.first_worse(model, mechanism) for mechanism in result.mechanisms]
    worse = [score for score in found if score is not None]
    if not worse:
        return ["It stays better than a constant in all settings."] if len(result.mechanisms) > 1 else []
    first = min(worse, key=lambda score: score.missing_share)
    return [f"It first falls behind a constant when {phrase(first)}."]


def phrase(score: StressScore) -> str:
    """What is missing, as the end of a sentence that starts with "when"."""
    share = percent(score.missing_share if score.level is None else score.level)
    if score.mechanism not in _PHRASES:
        # What the level of a mechanism of the caller refers to is not known.
        return f"{score.mechanism!r} reaches {share}"
    return _PHRASES[score.mechanism].format(share=share)


def percent(share: float) -> str:
    """A share in percent, with one digit below 10%.

    Examples
    --------
    >>> percent(0.5), percent(0.0312), percent(1.234)
    ('50%', '3.1%', '123%')
    """
    text = f"{100 * share:.{1 if abs(share) < 0.0995 else 0}f}"
    return f"{text.removesuffix('.0')}%"
