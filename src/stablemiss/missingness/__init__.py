"""Laws that hide cells of a table, to learn and to test under known missingness."""

from collections.abc import Callable

from stablemiss.missingness.law import LEVELS, Law
from stablemiss.missingness.mar import MAR
from stablemiss.missingness.mcar import MCARIndependent, MCARWindow
from stablemiss.missingness.mnar import MNAR
from stablemiss.missingness.only import Only
from stablemiss.missingness.outage import Outage
from stablemiss.missingness.resampled import Resampled
from stablemiss.missingness.thinning import Thinning, relevance

# The laws that a level alone describes, by the name the command line uses: LAWS["mar"](0.5).
LAWS: dict[str, Callable[..., Law]] = {
    "mcar_independent": MCARIndependent,
    "mcar_window": MCARWindow,
    "mar": MAR,
    "mnar": MNAR,
}

__all__ = [
    "LAWS",
    "LEVELS",
    "MAR",
    "MNAR",
    "Law",
    "MCARIndependent",
    "MCARWindow",
    "Only",
    "Outage",
    "Resampled",
    "Thinning",
    "relevance",
]
