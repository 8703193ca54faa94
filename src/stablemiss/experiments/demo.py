"""The demonstration: Gaussian-Mix, trained at one missing level, tested at all nine, in minutes."""

from __future__ import annotations

from types import MappingProxyType

from stablemiss.datasets import make_gaussian_mix
from stablemiss.evaluation import ResultRow, score_under_shift
from stablemiss.methods import OLS, AnyMask, Boosting, EMMixture, StableMiss
from stablemiss.missingness import MECHANISMS
from stablemiss.progress import Progress

N_FEATURES = 50

# Under other mechanisms the mask itself tells about the target, and the reference would not be optimal.
DEMO_MECHANISMS = ("mar", "mcar_window", "mcar_independent")

DEMO_METHODS = MappingProxyType(
    {
        "ols": OLS(),
        "boosting": Boosting(),
        "boosting, masked copies": Boosting(masked_copies=6),
        "stablemiss": StableMiss(),
        "em_mixture": EMMixture(),
        "anymask, fast": AnyMask("fast"),
    }
)


def run_demo(
    seed: int = 0,
    mechanism: str = "mar",
    train_level: float = 0.1,
    rows: int = 16384,
    progress: Progress | None = None,
) -> list[ResultRow]:
    """Result rows of the demonstration; `stablemiss.report` makes the table and the page from them.

    Parameters
    ----------
    seed : int
        Another seed draws another population, other rows, masks and fits.
    mechanism : "mar", "mcar_window" or "mcar_independent"
        How cells get hidden, in training and at test.
    train_level : float
        Share of cells missing in training, between 0 and 1.
    rows : int
        Training rows; half as many are drawn to test on. Raising it lowers the gaps of methods that can
        learn the truth, steadies all scores, and takes longer.
    progress : Progress
        Told which method is at work.

    Examples
    --------
    >>> from stablemiss.report import gap_table
    >>> table = gap_table(run_demo(rows=16384))  # doctest: +SKIP
    """
    if mechanism not in DEMO_MECHANISMS:
        raise ValueError(f"mechanism should be one of {', '.join(DEMO_MECHANISMS)}, but is {mechanism!r}.")
    if not 0 < train_level < 1:
        raise ValueError(f"train_level should lie between 0 and 1, but is {train_level}.")
    return score_under_shift(
        make_gaussian_mix(N_FEATURES, random_state=seed),
        MECHANISMS[mechanism](train_level),
        DEMO_METHODS,
        dataset="Gaussian-Mix",
        n_rows=rows,
        n_test_rows=rows // 2,
        seed=seed,
        progress=progress,
    )
