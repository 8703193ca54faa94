"""What a change of settings did: RMSE of a later run relative to an earlier one, on the same test rows."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from stablemiss.report.markdown import markdown_table
from stablemiss.report.text import signed_percent, title_of
from stablemiss.results import Record

# Records of the first run, beside those of the budget "standard".
FIRST_RUN = "first_run.jsonl"
# Label → what changed between the first run of the reproduction and the second one. In both, populations,
# rows and masks are the same. All networks now wait equally long for an improvement, and all methods validate
# on the same rows.
CHANGES = {
    "stablemiss": "the paper's weights instead of ours; batches of 64; patience 8 instead of 4; wider g on "
    "the real table",
    "stablemiss_unweighted": "batches of 64; patience 8 instead of 4; wider g on the real table",
    "neumiss": "patience 8 instead of 6; two layers of 256 units on the real table",
    "partial_vae": "learning rate 3e-3 instead of 1e-3; patience 8 instead of 6",
    "miwae": "40 instead of 20 latent variables; learning rate 3e-3; patience 8; all validation rows",
    "p_bigan": "40 instead of 25 latent variables; learning rate 3e-3; two critic steps on the real table",
    "dwr": "penalty 10 instead of 1; not trained on validation rows",
    "srdo": "probabilities clipped at 0.3 instead of 0.1; not trained on validation rows",
    "stablenet": "λ_p scaled by the number of pairs, at least 2; patience 8; learning rate 1e-3 on synthetic "
    "tables; wider and with a memory of 512 rows on the real table",
    "ols": "not trained on validation rows",
    "em_mixture": "not trained on validation rows",
    "boosting": "the same validation rows as the other methods",
    "boosting_masked_copies": "the same validation rows as the other methods",
    "anymask": "outputs of its members are clipped",
}


class Change(NamedTuple):
    """RMSE after a change divided by the RMSE before it, minus one; mean over tests that both runs have."""

    label: str
    synthetic: float | None  # None without such tests
    real: float | None
    n: int  # fits that both runs have


def measure_changes(before: Iterable[Record], after: Iterable[Record]) -> list[Change]:
    """Compare two runs of the same budget, label by label in the order of `CHANGES`.

    Parameters
    ----------
    before, after : iterable of Record
        Fits are matched by data set, mechanism, level, instance and label, tests by mechanism and level.
    """
    earlier = {record.key: record for record in before}
    ratios: dict[tuple[str, bool], list[float]] = {}
    n_fits: dict[str, int] = {}
    for record in after:
        if record.key not in earlier:
            continue
        old = {(score.mechanism, score.level): score.error for score in earlier[record.key].scores}
        n_fits[record.label] = n_fits.get(record.label, 0) + 1
        for score in record.scores:
            if (error := old.get((score.mechanism, score.level))) and score.error is not None:
                is_real = record.dataset == "house_sales"
                ratios.setdefault((record.label, is_real), []).append(score.error / error - 1)

    def mean(label: str, is_real: bool) -> float | None:
        values = ratios.get((label, is_real))
        return fmean(values) if values else None

    return [
        Change(label, mean(label, False), mean(label, True), n_fits[label])
        for label in CHANGES
        if label in n_fits
    ]


def changes_markdown(before: Iterable[Record], after: Iterable[Record]) -> str:
    """A table of what changed between two runs, and what it did to the RMSE on the same test rows."""
    rows = [
        [
            title_of(change.label),
            CHANGES[change.label],
            *("–" if value is None else signed_percent(value) for value in (change.synthetic, change.real)),
            str(change.n),
        ]
        for change in measure_changes(before, after)
    ]
    return markdown_table(["", "change", "RMSE, synthetic tables", "RMSE, house sales", "fits"], rows)
