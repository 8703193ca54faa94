"""What held and what did not, in sentences made from the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean, median
from typing import Any

from stablemiss.experiments.exhibit import ABLATION, EIGHT, LINEAR, OPTIMAL
from stablemiss.experiments.exhibits import EXHIBITS, LATER
from stablemiss.report.comparison import as_percent, exhibit_of, number, reference_of, title_of
from stablemiss.report.tables import percent

SUBJECT, UNWEIGHTED = "stablemiss", "stablemiss_unweighted"
# What the paper leaves out and a reader would try first.
SIMPLE = ("ols", "em_mixture", "boosting", "boosting_masked_copies", "anymask", "constant")
# Whose constant stands in must be said: near the border another population decides otherwise.
STAND_IN = (
    "The paper prints no such predictor. For house prices the standard deviation over all sales stands in, "
    "elsewhere our constant in multiples of the RMSE of the exact answer that is linear in observed cells "
    "(for one Gaussian that is Optimal; for mixtures the paper's Optimal runs closest to it)."
)
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
        "Who wins?": [*(sentence for table in tables for sentence in _winners(table)), *_home_ground(tables)],
        "Does StableMiss beat the seven baselines, as the paper says?": _baselines(tables),
        "Do the weights help StableMiss?": _weights(tables),
        "What do the weights' terms do in the figures?": [
            sentence for figure in figures for sentence in _variants(figure)
        ],
        "Do methods that the paper leaves out beat StableMiss?": _simple(tables),
        "How do the paper's numbers compare?": [
            *_sizes(tables),
            *_worse_than_constant(tables),
            *_agreement(tables),
        ],
        "What failed?": _failed(fits),
    }
    not_run = {"What was not run?": _not_run(comparisons)}
    # What is missing bears on everything else, so it is said first.
    is_complete = all(one["n_done"] == one["n_fits"] for one in comparisons)
    found = found | not_run if is_complete else not_run | found
    return [{"question": question, "answers": answers} for question, answers in found.items() if answers]


def _winners(table: Comparison) -> list[str]:
    # What is linear in the observed cells here knows the true moments, so it does not compete.
    columns = [{k: cell for k, cell in column.items() if k != LINEAR} for column in _scored([table])]
    everyone = _count_best(columns)
    if not everyone:
        return []
    n = len(columns)
    done, needed = table["n_done"], table["n_fits"]
    so_far = f", {done} of {needed} fits so far" if done < needed else ""
    among_eight = _count_best(_with_all_eight(columns))
    return [
        f"{exhibit_of(table['name'])} ({_n(n, 'column')}{so_far}): {_list_wins(everyone)}"
        + (f"; of the paper's eight {_list_wins(among_eight)}." if among_eight else ".")
    ]


def _home_ground(tables: list[Comparison]) -> list[str]:
    drawn = [table for table in tables if _scored([table]) and table["reference_label"] == OPTIMAL]
    if not drawn:
        return []
    return [
        "Tables that are measured from Optimal are drawn from Gaussians or mixtures of them: the home ground "
        "of EM mixture, and of AnyMask, which has such a mixture among its parts. House sales favour "
        "AnyMask, too: it was developed on other splits of the same table."
    ]


def _baselines(tables: list[Comparison]) -> list[str]:
    columns = _scored(tables)
    drawn = [table for table in tables if table["reference_label"] == OPTIMAL]
    found = []
    for when, is_as_trained in (("shifts", False), ("does not shift", True)):
        every, of_drawn = (
            [
                column
                for column in _with_all_eight(some)
                if all(cell["published"] is not None for cell in column.values())
                and column[SUBJECT]["is_as_trained"] == is_as_trained
            ]
            for some in (columns, _scored(drawn))
        )
        sentences = [*_first(every), *_ahead(of_drawn)]
        found += [f"Where the missingness {when}: {sentence}" for sentence in sentences]
    rivals = {label: _beats(columns, SUBJECT, label) for label in EIGHT if label != SUBJECT}
    if any(n for _, n in rivals.values()):
        found.append(f"Columns in which its gap is smaller than theirs: {_list_shares(rivals)}.")
    clear = {label: _clear(tables, label) for label in rivals}
    if any(sum(counts) for counts in clear.values()):
        listed = ", ".join(f"{title_of(k)} {'/'.join(map(str, c))}" for k, c in clear.items() if sum(c))
        found.append(
            "Tables with several instances in which its RMSE is clearly lower / clearly higher than theirs / "
            f"neither (by the 95% interval of paired differences): {listed}. {_by_chance(clear.values())}"
        )
    return found


def _by_chance(counts: Iterable[tuple[int, int, int]]) -> str:
    n = sum(map(sum, counts))
    return (
        f"Of {n} such intervals about {n / 20:.0f} would be clear by chance alone; tables of the same data "
        "share populations and test rows."
    )


def _first(columns: list[Scored]) -> list[str]:
    """How often StableMiss is first of the eight, here and in print."""
    if not columns:
        return []
    n = len(columns)
    ours, theirs = _count_best(columns)[SUBJECT], _count_best(columns, "published")[SUBJECT]
    return [
        f"{_verdict(ours, n).lower()}, StableMiss has the smallest gap of the eight in {ours} of "
        f"{_n(n, 'column')} (in print: {theirs})."
    ]


def _ahead(columns: list[Scored]) -> list[str]:
    """By how much StableMiss is ahead of the best of the others, or behind, here and in print."""
    if not columns:
        return []
    sizes = []
    for key in ("share", "published_share"):
        own = fmean(column[SUBJECT][key] for column in columns)
        rival = fmean(min(column[k][key] for k in EIGHT if k != SUBJECT) for column in columns)
        sizes.append((as_percent(own), as_percent(rival)))
    return [
        f"on average its gap to Optimal is {sizes[0][0]} of Optimal's RMSE, and {sizes[0][1]} for the best "
        f"of the seven, picked anew in each of {_n(len(columns), 'column')} (in print: {sizes[1][0]} and "
        f"{sizes[1][1]})."
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
            f" over tables: from {_change(pairs[low]['mean'])} ({low}) to "
            f"{_change(pairs[high]['mean'])} ({high})."
            if len(pairs) > 1
            else "."
        ),
    ]
    lower, higher, neither = _clear(tables, UNWEIGHTED)
    if lower + higher + neither:
        found.append(
            f"Of {_n(lower + higher + neither, 'table')} with several instances the weights clearly lower "
            f"its RMSE in {lower}, clearly raise it in {higher}, and do neither in {neither} (by the 95% "
            "interval of paired differences)."
        )
    else:
        found.append("There is one instance of each table, so chance cannot be told from effect.")
    return found


def _variants(figure: Comparison) -> list[str]:
    columns = _scored([figure])
    complete = [column for column in columns if column.keys() >= set(ABLATION)]
    if not complete:
        return []
    name, last = exhibit_of(figure["name"]), complete[-1]
    own = [column[figure["subject"]]["share"] for column in complete]
    rivals = [min(column[k]["share"] for k in ABLATION if k != figure["subject"]) for column in complete]
    changes = [column[figure["subject"]]["rmse"] / column[UNWEIGHTED]["rmse"] - 1 for column in complete]
    level = percent(max(column["level"] for column in figure["columns"]))
    at_last = (
        f"; at {level} {as_percent(own[-1])} against {as_percent(rivals[-1])}" if last is columns[-1] else ""
    )
    return [
        f"{name}, the paper says: {figure['claim']}",
        f"{name}, here: the gap with all terms is {as_percent(fmean(own))} of the reference's RMSE on "
        f"average over {_n(len(complete), 'test level')}, that of the best other variant "
        f"{as_percent(fmean(rivals))}{at_last if last is columns[-1] else ''}.",
        f"{name}, here: with all terms the RMSE is {_change(fmean(changes))} than with none on average, and "
        f"{_change(max(changes, key=abs))} where they differ most.",
    ]


def _simple(tables: list[Comparison]) -> list[str]:
    columns = _scored(tables)
    rivals = {label: _beats(columns, label, SUBJECT) for label in SIMPLE}
    if not any(n for _, n in rivals.values()):
        return []
    return [f"Columns in which their gap is smaller than StableMiss's: {_list_shares(rivals)}."]


def _sizes(tables: list[Comparison]) -> list[str]:
    found = []
    for reference in dict.fromkeys(map(reference_of, tables)):
        cells = [
            cell
            for column in _scored(table for table in tables if reference_of(table) == reference)
            for label, cell in column.items()
            if label in EIGHT and cell["published_share"] is not None
        ]
        if cells:
            ours, theirs = (median(cell[key] for cell in cells) for key in ("share", "published_share"))
            found.append(
                f"The median gap of the paper's methods to {reference} is {as_percent(ours)} of its RMSE "
                f"here, and {as_percent(theirs)} in print ({_n(len(cells), 'cell')})."
            )
    return found


def _worse_than_constant(tables: list[Comparison]) -> list[str]:
    cells = [(label, cell) for column in _scored(tables) for label, cell in column.items() if label in EIGHT]
    judged = [(label, cell) for label, cell in cells if cell["published_is_worse_than_constant"] is not None]
    if not judged:
        return []
    worse = Counter(label for label, cell in judged if cell["published_is_worse_than_constant"])
    ours = sum(cell["is_worse_than_constant"] for _, cell in judged)
    named = ", ".join(f"{title_of(label)} {n}" for label, n in worse.most_common())
    return [
        f"Of {len(judged)} printed errors {worse.total()} are larger than that of predicting the mean"
        + (f" ({named})" if worse else "")
        + f"; of ours in the same places {ours}. The paper prints no such predictor: what stands in for it, "
        "as told below, would give a somewhat other count for other populations."
    ]


def _agreement(tables: list[Comparison]) -> list[str]:
    known = {
        (exhibit_of(table["name"]), place): value
        for table in tables
        for place, value in zip(_places(table), table["agreement"], strict=True)
        if value is not None
    }
    if not known:
        return []
    # What stands in two tables counts once in the mean of all.
    values = {place: value for (_, place), value in known.items()}.values()
    means = {name: fmean(value for (one, _), value in known.items() if one == name) for name, _ in known}
    low, high = min(means, key=lambda t: means[t]), max(means, key=lambda t: means[t])
    between = f", from {number(means[low], 2)} ({low}) to {number(means[high], 2)} ({high})"
    return [
        "The rank correlation of our gaps with the printed ones (1: same order of methods, 0: none, "
        f"−1: reversed) is {number(fmean(values), 2)} on average over {_n(len(values), 'column')}"
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
        for i, place in enumerate(_places(table)):
            scored = {line["label"]: line["cells"][i] for line in table["lines"] if line["cells"][i]}
            if scored:
                found.setdefault(place, scored)
    return list(found.values())


def _places(table: Comparison) -> list[tuple[Any, ...]]:
    """What each column is trained on and tested on: what two tables share has the same place in both."""
    exhibit = EXHIBITS[table["name"]]
    what = exhibit.dataset, exhibit.train_mechanism, exhibit.test_mechanism
    return [(*what, column["train_level"], column["test_level"]) for column in table["columns"]]


def _with_all_eight(columns: Iterable[Scored]) -> list[Scored]:
    """The paper's methods in those columns in which all of them have a score."""
    return [{k: column[k] for k in EIGHT} for column in columns if column.keys() >= set(EIGHT)]


def _clear(tables: Iterable[Comparison], label: str) -> tuple[int, int, int]:
    """Tables in which StableMiss errs clearly less than another, clearly more, or neither."""
    pairs = [pair for table in tables for pair in table["paired"] if pair["label"] == label]
    several = [pair for pair in pairs if pair["is_clear"] is not None]
    lower = sum(pair["is_clear"] and pair["mean"] > 0 for pair in several)
    higher = sum(pair["is_clear"] and pair["mean"] < 0 for pair in several)
    return lower, higher, len(several) - lower - higher


def _count_best(columns: list[Scored], key: str = "gap") -> Counter[str]:
    """Label → in how many columns nobody has less; who ties with the best is counted, too."""
    return Counter(
        label
        for column in columns
        for label, cell in column.items()
        if cell[key] == min(other[key] for other in column.values())
    )


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
