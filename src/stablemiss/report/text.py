"""Display names and number formats that all views share."""

from __future__ import annotations

from collections.abc import Iterable

from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.published import NAMES

# Label → display name. The paper's methods have the paper's names. No commas: names are listed in sentences.
TITLES = {
    **NAMES,
    "stablemiss_full": "StableMiss full",
    "stablemiss_intra": "StableMiss only intra",
    "stablemiss_inter": "StableMiss only inter",
    "stablemiss_unweighted": "StableMiss unweighted",
    "ols": "OLS",
    "em_mixture": "EM mixture",
    "boosting": "LightGBM",
    "boosting_masked_copies": "LightGBM on masked copies",
    "anymask": "AnyMask",
    "anymask_fast": "AnyMask fast",
    "optimal": "Optimal",
}


def title_of(label: str) -> str:
    """Display name of a label."""
    return TITLES.get(label, label)


def table_title(name: str) -> str:
    """Display name of a table or figure, such as "Table 11"."""
    word = name.rstrip("0123456789")
    return f"{word.capitalize()} {name[len(word) :]}".strip()


def reference_title(comparison: Comparison) -> str:
    """Display name of the reference; the paper writes "-ID" for a StableMiss trained at the test level."""
    return title_of(comparison.table.reference) + ("-ID" if comparison.table.reference_at_test_level else "")


def column_titles(comparison: Comparison) -> list[str]:
    """The level that names each column, in percent."""
    return [percent(comparison.table.column_level(column)) for column in comparison.columns]


def axis_title(comparison: Comparison) -> str:
    """Whether the levels of the columns are those of training rows, of test rows, or of both."""
    if len({column.train_level for column in comparison.columns}) == 1:
        return "tested at"
    has_one_test_level = len({column.test_level for column in comparison.columns}) == 1
    return "trained at" if has_one_test_level else "trained and tested at"


def instances_text(comparison: Comparison) -> str:
    """Number of instances behind the columns, such as "3", "1 of 3" or "1–2 of 3"."""
    counts = [len(instances) for instances in comparison.instances if instances] or [0]
    text = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    return text if min(counts) == comparison.n_instances else f"{text} of {comparison.n_instances}"


def decimals_for(references: Iterable[float | None]) -> int:
    """Decimals that distinguish gaps, given the size of the reference's errors."""
    return 0 if max((rmse for rmse in references if rmse is not None), default=0.0) >= 100 else 2


def number(value: float | None, decimals: int) -> str:
    """A number with a true minus sign and no negative zero; a dash for None.

    Examples
    --------
    >>> number(-12.5, 1), number(-0.001, 2), number(None, 2)
    ('−12.5', '0.00', '–')
    """
    return "–" if value is None else f"{value:z.{decimals}f}".replace("-", "−")


def as_percent(value: float | None) -> str:
    """A fraction in percent with one decimal; a dash for None."""
    return "–" if value is None else f"{number(100 * value, 1)}%"


def percent(level: float) -> str:
    """A level in percent without trailing zeros, such as "10%" or "12.5%"."""
    return f"{round(100 * level, 6):g}%"
