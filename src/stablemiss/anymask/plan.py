"""The members that each budget fits, and their hyper-parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from stablemiss.base.method import Method
from stablemiss.checks import check_choice, shown, to_list
from stablemiss.encoding.categories import MAX_WIDTH
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.em_mixture import EMMixture

Budget = Literal["fast", "default", "best"]
MIXTURE, BOOSTING, NET = "mixture", "boosting", "net"
# A further member, if there are a mixture and boosting.
RESIDUAL_BOOSTING = "residual boosting"
MEMBERS = (MIXTURE, BOOSTING, NET)
# Tables with more encoded columns are fitted without the mixture: its time grows with the cube of their
# number.
MAX_MIXTURE_COLUMNS = MAX_WIDTH


@dataclass(frozen=True)
class Plan:
    """The members that a budget fits.

    Attributes
    ----------
    methods : dict
        Member name → method. The position in this dictionary determines the random generator of a member.
    masked_copies : int
        Number of masked copies of the rows on which boosting is trained.
    """

    methods: dict[str, Method]
    masked_copies: int

    def select(self, members: Sequence[str], n_columns: int) -> dict[str, Method]:
        """Member name → method for the members that the user chose.

        Parameters
        ----------
        members : sequence of "mixture", "boosting", "net"
            "net" selects all networks of the plan.
        n_columns : int
            Number of encoded columns of the table. Very wide tables are fitted without the mixture, unless it
            is the only member.
        """
        names = to_list(members)
        if not names or any(not isinstance(name, str) or name not in MEMBERS for name in names):
            raise ValueError(
                f"members must be a non-empty subset of {', '.join(map(repr, MEMBERS))}; got "
                f"{shown(members)}."
            )
        selected = {name: method for name, method in self.methods.items() if name.split()[0] in names}
        if n_columns > MAX_MIXTURE_COLUMNS and len(selected) > 1:
            selected.pop(MIXTURE, None)
        return selected


def make_plan(budget: str) -> Plan:
    """The plan of a budget: "fast", "default" or "best"."""
    check_choice({"budget": budget}, budget=get_args(Budget))
    # The mixture is never refitted on the validation rows, because stacking and calibration use them.
    if budget == "fast":
        return Plan(
            {
                MIXTURE: EMMixture(max_components=3, tolerance=3e-3, max_steps=40, refit_on_validation=False),
                BOOSTING: Boosting(learning_rate=0.15, patience=20, max_features=0.5),
                NET: ColumnNet(width=128, steps=500),
            },
            masked_copies=3,
        )
    if budget == "default":
        return Plan(
            {
                MIXTURE: EMMixture(
                    max_components=5, tolerance=1e-3, max_steps=100, refit_on_validation=False
                ),
                BOOSTING: Boosting(learning_rate=0.05, patience=30, max_features=0.5),
                NET: ColumnNet(),
            },
            masked_copies=8,
        )
    nets = {f"{NET} {number}": ColumnNet(width=256, steps=5000, batch_size=128) for number in (1, 2, 3)}
    mixture = EMMixture(refit_on_validation=False)
    boosting = Boosting(learning_rate=0.03, max_features=0.5)
    return Plan({MIXTURE: mixture, BOOSTING: boosting, **nets}, masked_copies=12)
