"""How much a reproduction may cost, and with which settings each label is fitted at that price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stablemiss.experiments.exhibit import Column, Exhibit
from stablemiss.missingness import LEVELS

# Label of a line → the method behind it, and what sets it apart from the method's own defaults.
LABELS: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("constant", {}),
    "ols": ("ols", {}),
    "em_mixture": ("em_mixture", {}),
    "boosting": ("boosting", {"masked_copies": 0}),
    "boosting_masked_copies": ("boosting", {"masked_copies": 6}),
    "partial_vae": ("partial_vae", {}),
    "miwae": ("miwae", {}),
    "p_bigan": ("p_bigan", {}),
    "neumiss": ("neumiss", {}),
    "dwr": ("dwr", {}),
    "srdo": ("srdo", {}),
    "stablenet": ("stablenet", {}),
    "stablemiss": ("stablemiss", {"decorrelate": "full"}),
    "stablemiss_full": ("stablemiss", {"decorrelate": "full"}),
    "stablemiss_intra": ("stablemiss", {"decorrelate": "intra"}),
    "stablemiss_inter": ("stablemiss", {"decorrelate": "inter"}),
    "stablemiss_unweighted": ("stablemiss", {"decorrelate": "none"}),
    "anymask": ("anymask", {}),
}
# PAPER: a linear predictor on synthetic data, a network on real data; StableNet gets the same network.
BENT: dict[str, dict[str, Any]] = {
    "neumiss": {"hidden": (128,)},
    "stablenet": {"hidden": (32,)},
    "stablemiss": {"architecture": "mlp"},
}
# PAPER: under MCAR columns and masks are decorrelated each by themselves, under MAR also from each other.
MCAR: dict[str, dict[str, Any]] = {"stablemiss": {"decorrelate": "intra"}}


@dataclass(frozen=True)
class Budget:
    """One price, the same for all methods.

    Parameters
    ----------
    name : str
    n_features, n_rows, n_test_rows : int
        Of synthetic data.
    n_real_rows : int, optional
        The most training rows of real tables; None: all.
    levels : tuple of float
        Columns that train or test at other levels are left out.
    n_instances : int, optional
        Populations or splits of every exhibit; None: as many as each asks for.
    seconds : float
        What one fit may take on one core, whatever the method. Nothing is cut off, so that scores do not
        depend on the machine; fits should end by themselves before, and the report says which did not.
    n_trials : int
        Trials of a search for hyper-parameters before each fit; 0 takes the settings as they are.
    is_brief : bool
        Every method learns with its own `brief` parameters.
    settings : dict
        Method → parameters in place of its defaults.
    """

    name: str
    n_features: int
    n_rows: int
    n_test_rows: int
    seconds: float
    n_real_rows: int | None = None
    levels: tuple[float, ...] = LEVELS
    n_instances: int | None = None
    n_trials: int = 0
    is_brief: bool = False
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def columns(self, exhibit: Exhibit) -> list[Column]:
        """Those columns of a table or figure that are run at this price."""
        return [
            column
            for column in exhibit.columns
            if column.train_level in self.levels and column.test_level in self.levels
        ]

    def instances(self, exhibit: Exhibit) -> range:
        return range(exhibit.n_instances if self.n_instances is None else self.n_instances)


def _each(names: str, **parameters: Any) -> dict[str, dict[str, Any]]:
    return {name: dict(parameters) for name in names.split()}


# PAPER: a thousand epochs in batches of 64 for everything that is trained by gradients.
_TRAINED = "neumiss partial_vae miwae p_bigan stablenet stablemiss"
BUDGETS: dict[str, Budget] = {
    budget.name: budget
    for budget in (
        Budget(
            name="quick",
            n_features=12,
            n_rows=1000,
            n_test_rows=1000,
            seconds=10,
            n_real_rows=2000,
            levels=(0.1, 0.5, 0.9),
            n_instances=1,
            is_brief=True,
        ),
        Budget(name="standard", n_features=50, n_rows=16384, n_test_rows=8192, seconds=240),
        Budget(
            name="paper",
            n_features=50,
            n_rows=16384,
            n_test_rows=16384,
            seconds=24 * 3600,
            n_instances=5,
            n_trials=30,
            settings=_each(_TRAINED, max_epochs=1000, batch_size=64),
        ),
    )
}


def settings_of(label: str, mechanism: str, is_real: bool, budget: Budget) -> tuple[str, dict[str, Any]]:
    """The method behind a label, and its parameters where they are not its defaults.

    Parameters
    ----------
    label : str
        One of `LABELS`.
    mechanism : str
        How training rows are hidden.
    is_real : bool
        The table is real: predictors may bend.
    budget : Budget

    Examples
    --------
    >>> settings_of("stablemiss", "mar", is_real=False, budget=BUDGETS["standard"])
    ('stablemiss', {'decorrelate': 'full'})
    """
    name, own = LABELS[label]
    bent = BENT.get(name, {}) if is_real else {}
    of_mechanism = MCAR.get(label, {}) if mechanism.startswith("mcar") else {}
    return name, {**budget.settings.get(name, {}), **bent, **own, **of_mechanism}
