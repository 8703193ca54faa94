"""The outcome of the reproduction in one paragraph, made from its statistics."""

from __future__ import annotations

from collections.abc import Iterator

from stablemiss.experiments.comparison import Pair
from stablemiss.report.claims import HELD, IN_PART, NOT_HELD, SUBJECT, UNDECIDED
from stablemiss.report.statistics import Statistics, statistics
from stablemiss.report.summary import Summary
from stablemiss.report.text import as_percent, interval_text, signed_percent, title_of

# Methods outside the paper that the verdict names.
OTHERS = ("em_mixture", "anymask", "boosting_masked_copies")


def verdict(summary: Summary) -> str:
    """What the records say about the paper, in one paragraph. What they cannot say is left out."""
    values = statistics(summary)
    parts = (_first(values), _claims(values), _gaps(values), _weights(values), _others(summary, values))
    return " ".join(sentence for part in (*parts, _completeness(values)) for sentence in part)


def _claims(values: Statistics) -> Iterator[str]:
    counts = {one: int(values[f"claims.{one.replace(' ', '_')}"]) for one in (HELD, IN_PART, NOT_HELD)}
    n, undecided = int(values["claims"]), int(values[f"claims.{UNDECIDED.replace(' ', '_')}"])
    if undecided == n:
        yield "The records are not enough to judge any of the paper's claims."
        return
    counted = ", ".join(f"{count} {name}" for name, count in counts.items())
    decided = (
        "the paper's claims" if not undecided else "the paper's claims that the records can decide so far"
    )
    yield f"Verdicts on {decided}: {counted}."


def _first(values: Statistics) -> Iterator[str]:
    if n := int(values["columns.shift"]):
        first = int(values["first.shift"])
        is_complete = values["results"] == values["results.planned"]
        outcome = "is not" if first < n else "is" if is_complete else "is so far"
        yield (
            "The paper's main claim, that StableMiss has the lowest error of its eight methods whenever the "
            f"missingness shifts between training and test, {outcome} reproduced: it is lowest in {first} "
            f"of {n} table columns here, and in {values['first.published.shift']:.0f} of them in print."
        )


def _gaps(values: Statistics) -> Iterator[str]:
    if "gap.shift" in values:
        neumiss = values.get("mean_gap.neumiss")
        yield (
            "On synthetic data its error under a shift is on average "
            f"{as_percent(values['gap.shift'])} above the best possible one, NeuMiss's "
            f"{as_percent(neumiss)}, and that of the best other of the eight in each column "
            f"{as_percent(values['best_other.shift'])}."
        )


def _weights(values: Statistics) -> Iterator[str]:
    if "weights.overall" not in values:
        return
    change = signed_percent(values["weights.overall"])
    n_tables = f"{values['weights.tables']:.0f} tables"
    text = f"The paper's row weights change the error of StableMiss by {change} on average over {n_tables}"
    if "weights.overall.low" in values:
        low, high = (signed_percent(values[f"weights.overall.{end}"]) for end in ("low", "high"))
        text += f" (95% interval over {values['weights.instances']:.0f} instances: {low} to {high})"
    if (share := values.get(f"share.{SUBJECT}")) is not None:
        text += f"; their effective sample size is {as_percent(share)} of the rows"
        ours = values.get("share.stablemiss_weighted")
        text += f", with our form of the weights {as_percent(ours)}" if ours is not None else ""
    yield text + "."


def _others(summary: Summary, values: Statistics) -> Iterator[str]:
    """What methods reach that the paper does not compare with: on synthetic data, and on house sales."""
    synthetic = []
    for label in OTHERS:
        if f"mean_gap.{label}" in values:
            subject = as_percent(values[f"mean_gap.{label}.{SUBJECT}"])
            # Not every method was run in all tables.
            is_known = "gap.shift" in values and as_percent(values["gap.shift"]) == subject
            same_columns = "" if is_known else f" (StableMiss in the same columns {subject})"
            synthetic.append(f"{title_of(label)} {as_percent(values[f'mean_gap.{label}'])}{same_columns}")
    if synthetic:
        yield f"Methods outside the paper, in the same synthetic tables: {', '.join(synthetic)}."
    pairs = {pair.label: pair for one in summary.tables if one.table.name == "table3" for pair in one.pairs}
    prices = [_difference(pairs[label]) for label in OTHERS if label in pairs]
    if prices:
        yield f"On house sales, the error of StableMiss is {', '.join(prices)}."


def _difference(pair: Pair) -> str:
    """Such as "3.1% higher than that of OLS [2.0, 4.2]"."""
    size, direction = signed_percent(abs(pair.mean)).lstrip("+"), "lower" if pair.mean < 0 else "higher"
    return f"{size} {direction} than that of {title_of(pair.label)} {interval_text(pair.interval)}".rstrip()


def _completeness(values: Statistics) -> Iterator[str]:
    done, planned = int(values["results"]), int(values["results.planned"])
    if done < planned:
        yield f"The records are incomplete: {done:,} of {planned:,} results ({100 * done // planned}%)."
    else:
        yield f"The records are complete: {planned:,} results."
