"""What held and what did not, in sentences made from the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from stablemiss.experiments.compare import SUBJECT
from stablemiss.experiments.exhibit import EIGHT, LINEAR
from stablemiss.experiments.exhibits import EXHIBITS, LATER
from stablemiss.report.comparison import exhibit_of, number, title_of

UNWEIGHTED = "stablemiss_unweighted"
# What the paper leaves out and a reader would try first.
SIMPLE = ("ols", "em_mixture", "boosting", "boosting_thinned", "anymask", "constant")
Comparison = dict[str, Any]
# One column of a table: label → its cell, for all that were scored there.
Scored = dict[str, dict[str, Any]]


def verdicts(comparisons: list[Comparison], fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Questions a reader has, each with its answers.

    Parameters
    ----------
    comparisons : list of dict
        Tables and figures as `stablemiss.experiments.compare.compare` returns them, each with ``n_done`` and
        ``n_fits``: how many of its fits are stored, and how many it needs.
    fits : result rows
        Those behind them.

    Returns
    -------
    list of dict
        ``question`` and ``answers`` (sentences). A question that nothing was run for is left out.

    Examples
    --------
    >>> [one["question"] for one in verdicts([], [])]
    ['What was not run?']
    """
    tables = [one for one in comparisons if not one["is_figure"]]
    figures = [one for one in comparisons if one["is_figure"]]
    found = {
        "Who wins?": [sentence for table in tables for sentence in _winners(table)],
        "Do the weights help StableMiss?": [*_weights(tables), *_variants(figures)],
        "Does StableMiss beat the seven baselines, as the paper says?": _baselines(tables),
        "Do methods that the paper leaves out beat StableMiss?": _simple(tables),
        "How do the paper's numbers compare?": [*_worse_than_constant(tables), *_agreement(tables)],
        "What failed?": _failed(fits),
        "What was not run?": _not_run(comparisons),
    }
    return [{"question": question, "answers": answers} for question, answers in found.items() if answers]


def _winners(table: Comparison) -> list[str]:
    # What is linear in the observed cells here knows the true moments, so it does not compete.
    columns = [{k: cell for k, cell in column.items() if k != LINEAR} for column in _scored([table])]
    eight = [{k: cell for k, cell in column.items() if k in EIGHT} for column in columns]
    everyone = _count_best(columns)
    if not everyone:
        return []
    done, needed = table["n_done"], table["n_fits"]
    so_far = f", {done} of {needed} fits so far" if done < needed else ""
    among_eight = _count_best(eight)
    return [
        f"{exhibit_of(table['name'])} ({_n(everyone.total(), 'column')}{so_far}): {_list_wins(everyone)}"
        + (f"; of the paper's eight {_list_wins(among_eight)}." if among_eight else ".")
    ]


def _weights(tables: list[Comparison]) -> list[str]:
    won, n = _beats(_scored(tables), SUBJECT, UNWEIGHTED)
    if not n:
        return []
    pairs = {
        exhibit_of(table["name"]): pair
        for table in tables
        for pair in table["paired"]
        if pair["label"] == UNWEIGHTED
    }
    low, high = min(pairs, key=lambda t: pairs[t]["mean"]), max(pairs, key=lambda t: pairs[t]["mean"])
    found = [
        f"{_verdict(won, n)}: StableMiss has the smaller gap with its weights in {won} of {_n(n, 'column')}.",
        f"Without them its RMSE is {_change(fmean(pair['mean'] for pair in pairs.values()))} on average"
        + (
            f": from {_change(pairs[low]['mean'])} ({low}) to {_change(pairs[high]['mean'])} ({high})."
            if len(pairs) > 1
            else "."
        ),
    ]
    several = [pair for pair in pairs.values() if pair["spread"] is not None]
    if several:
        clear = sum(abs(pair["mean"]) > pair["spread"] for pair in several)
        found.append(
            f"The difference is larger than its spread over instances in {clear} of "
            f"{_n(len(several), 'table')} with several instances."
        )
    else:
        found.append("There is one instance of each table, so chance cannot be told from effect.")
    return found


def _variants(figures: list[Comparison]) -> list[str]:
    wins = {exhibit_of(figure["name"]): _count_best(_scored([figure])) for figure in figures}
    return [
        f"{name} ({_n(count.total(), 'test level')}): {_list_wins(count)}."
        for name, count in wins.items()
        if count
    ]


def _baselines(tables: list[Comparison]) -> list[str]:
    columns = _scored(tables)
    complete = [
        {label: column[label] for label in EIGHT}
        for column in columns
        if column.keys() >= set(EIGHT) and all(column[label]["published"] is not None for label in EIGHT)
    ]
    found = []
    if complete:
        ours, theirs = _count_best(complete)[SUBJECT], _count_best(complete, "published")[SUBJECT]
        n = len(complete)
        found.append(
            f"{_verdict(ours, n)}: StableMiss has the smallest gap of the eight in {ours} of "
            f"{_n(n, 'column')}; the paper prints it as the smallest in {theirs} of the same."
        )
    rivals = {label: _beats(columns, SUBJECT, label) for label in EIGHT if label != SUBJECT}
    if any(n for _, n in rivals.values()):
        found.append(f"Columns in which its gap is smaller than theirs: {_list_shares(rivals)}.")
    return found


def _simple(tables: list[Comparison]) -> list[str]:
    columns = _scored(tables)
    rivals = {label: _beats(columns, label, SUBJECT) for label in SIMPLE}
    if not any(n for _, n in rivals.values()):
        return []
    return [f"Columns in which their gap is smaller than StableMiss's: {_list_shares(rivals)}."]


def _worse_than_constant(tables: list[Comparison]) -> list[str]:
    cells = [(label, cell) for column in _scored(tables) for label, cell in column.items() if label in EIGHT]
    judged = [(label, cell) for label, cell in cells if cell["published_is_worse_than_constant"] is not None]
    if not judged:
        return []
    worse = Counter(label for label, cell in judged if cell["published_is_worse_than_constant"])
    ours = sum(cell["is_worse_than_constant"] for _, cell in judged)
    named = ", ".join(f"{title_of(label)} {n}" for label, n in worse.most_common())
    return [
        f"Of {len(judged)} printed gaps {worse.total()} are worse than predicting the mean"
        + (f" ({named})" if worse else "")
        + f"; of ours in the same places {ours}.",
        # Whose mean it is must be said: near the border another population decides otherwise.
        "The paper prints no constant; ours stands in for it: in dollars for house prices, else in multiples "
        "of the RMSE of the exact answer that is linear in the observed cells (its Optimal is near that).",
    ]


def _agreement(tables: list[Comparison]) -> list[str]:
    means = {
        exhibit_of(table["name"]): fmean(known)
        for table in tables
        if (known := [value for value in table["agreement"] if value is not None])
    }
    if not means:
        return []
    values = [value for table in tables for value in table["agreement"] if value is not None]
    low, high = min(means, key=lambda t: means[t]), max(means, key=lambda t: means[t])
    between = f", from {number(means[low], 2)} ({low}) to {number(means[high], 2)} ({high})"
    return [
        f"The rank correlation of our gaps with the printed ones (1: same order of methods, 0: none) is "
        f"{number(fmean(values), 2)} on average over {_n(len(values), 'column')}"
        + (f"{between}." if len(means) > 1 else ".")
    ]


def _failed(fits: list[dict[str, Any]]) -> list[str]:
    failed = [fit for fit in fits if fit["error"] is not None]
    if not failed:
        return [f"Nothing: all {_n(len(fits), 'fit')} gave scores."] if fits else []
    # A reason may run over many lines; its first says what happened.
    reasons = Counter(
        (title_of(fit["label"]), fit["dataset"], (fit["error"].splitlines() or [""])[0]) for fit in failed
    )
    return [
        f"{len(failed)} of {_n(len(fits), 'fit')}.",
        *(f"{who} on {data} ({_n(n, 'fit')}): {why}" for (who, data, why), n in sorted(reasons.items())),
    ]


def _not_run(comparisons: list[Comparison]) -> list[str]:
    begun = [one for one in comparisons if 0 < one["n_done"] < one["n_fits"]]
    left = ", ".join(
        f"{exhibit_of(one['name'])} ({one['n_fits'] - one['n_done']} of {one['n_fits']})" for one in begun
    )
    absent = ", ".join(exhibit_of(one["name"]) for one in comparisons if not one["n_done"])
    later = "; ".join(f"{exhibit_of(name)} waits for {what}" for name, what in LATER.items())
    found = (f"Fits still to be run: {left}." if left else "", f"Not begun: {absent}." if absent else "")
    return [sentence for sentence in (*found, f"{later}." if later else "") if sentence]


def _scored(tables: Iterable[Comparison]) -> list[Scored]:
    """All columns of some tables, each with the cells that have a score.

    What stands in two tables, such as 50% in tables 1 and 2, counts once: in the first.
    """
    found: dict[tuple[Any, ...], Scored] = {}
    for table in tables:
        exhibit = EXHIBITS[table["name"]]
        for i, column in enumerate(table["columns"]):
            what = exhibit.dataset, exhibit.train_law, exhibit.test_law
            place = *what, column["train_level"], column["test_level"]
            scored = {line["label"]: line["cells"][i] for line in table["lines"] if line["cells"][i]}
            if scored:
                found.setdefault(place, scored)
    return list(found.values())


def _count_best(columns: list[Scored], key: str = "gap") -> Counter[str]:
    """Label → in how many columns nobody has less."""
    return Counter(min(column, key=lambda label: column[label][key]) for column in columns if column)


def _beats(columns: list[Scored], one: str, other: str) -> tuple[int, int]:
    """In how many columns `one` has the smaller gap, of how many that have both."""
    both = [column for column in columns if one in column and other in column]
    return sum(column[one]["gap"] < column[other]["gap"] for column in both), len(both)


def _verdict(won: int, n: int) -> str:
    if won in (0, n):
        return "Yes" if won else "No"
    share = won / n
    return "Mostly" if share > 0.6 else "About as often as not" if share >= 0.4 else "Mostly not"


def _list_wins(count: Counter[str]) -> str:
    (first, most), *others = [(title_of(label), n) for label, n in count.most_common()]
    return ", ".join([f"{first} wins {most}", *(f"{name} {n}" for name, n in others)])


def _list_shares(rivals: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{title_of(label)} {won} of {n}" for label, (won, n) in rivals.items() if n)


def _change(share: float) -> str:
    return f"{abs(100 * share):.1f}% {'higher' if share >= 0 else 'lower'}"


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
