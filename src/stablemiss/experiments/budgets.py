"""How much a reproduction may cost, and the settings of each compared model, identified by a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stablemiss.base.search_space import Choice, Space
from stablemiss.experiments.array_tables import ArrayColumn, ArrayTable
from stablemiss.experiments.tables import FURTHER_METHODS, PaperTable, TableColumn

# PAPER: γ is selected from this list.
PAPER_GAMMAS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
PAPER_WEIGHTS: dict[str, Any] = {"form": "paper", "gamma": PAPER_GAMMAS}
# Name of a compared model → its method, and the parameters that distinguish it.
LABELS: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("constant", {}),
    "ols": ("ols", {}),
    # Validation rows are only for choosing, also for methods that could be trained on them in the end.
    "em_mixture": ("em_mixture", {"refit_on_validation": False}),
    "boosting": ("boosting", {"masked_copies": 0}),
    "boosting_masked_copies": ("boosting", {"masked_copies": 6}),
    "partial_vae": ("partial_vae", {}),
    "miwae": ("miwae", {}),
    "p_bigan": ("p_bigan", {}),
    "neumiss": ("neumiss", {}),
    "dwr": ("dwr", {}),
    "srdo": ("srdo", {}),
    "stablenet": ("stablenet", {}),
    # PAPER: literal covariances, and γ from a list. "full" means intra and inter terms.
    "stablemiss": ("stablemiss", {"decorrelate": "full", **PAPER_WEIGHTS}),
    "stablemiss_full": ("stablemiss", {"decorrelate": "full", **PAPER_WEIGHTS}),
    "stablemiss_intra": ("stablemiss", {"decorrelate": "intra", **PAPER_WEIGHTS}),
    "stablemiss_inter": ("stablemiss", {"decorrelate": "inter", **PAPER_WEIGHTS}),
    # Our form of the weights, and no weights.
    "stablemiss_weighted": ("stablemiss", {"decorrelate": "full"}),
    "stablemiss_weighted_full": ("stablemiss", {"decorrelate": "full"}),
    "stablemiss_weighted_intra": ("stablemiss", {"decorrelate": "intra"}),
    "stablemiss_weighted_inter": ("stablemiss", {"decorrelate": "inter"}),
    "stablemiss_unweighted": ("stablemiss", {"decorrelate": "none"}),
    "anymask": ("anymask", {}),
    "anymask_fast": ("anymask", {"budget": "fast"}),  # AnyMask's own parameter `budget`
    **{name: (name, {}) for name in FURTHER_METHODS},
    "pattern_submodels": ("pattern_submodels", {"refit_on_validation": False}),
}
# Settings of tables of this size that were better than the defaults when settings were compared, or for
# StableNet as good within 0.3%; small tables need the defaults.
TABLE_SETTINGS: dict[str, dict[str, Any]] = {
    "partial_vae": {"learning_rate": 3e-3},
    "stablenet": {"learning_rate": 1e-3},
}
# PAPER: a linear predictor on synthetic data, a network on real data. StableNet gets the same network.
# Settings of NeuMiss, P-BiGAN and StableNet are those that were best for the real table when settings were
# compared.
REAL_SETTINGS: dict[str, dict[str, Any]] = {
    "p_bigan": {"critic_steps": 2},
    "neumiss": {"hidden": (256, 256)},
    "stablenet": {"hidden": (128,), "n_memory": 512, "learning_rate": 1e-2},
    "stablemiss": {"architecture": "mlp"},
}
# PAPER: under MCAR, columns are decorrelated from columns and mask indicators from mask indicators; under
# MAR, columns also from mask indicators.
MCAR: dict[str, dict[str, Any]] = {
    "stablemiss": {"decorrelate": "intra"},
    "stablemiss_weighted": {"decorrelate": "intra"},
}


# PAPER: 1 to 3 layers of 128 to 4096 units. Method → space of budget "paper".
_WIDTHS = (128, 256, 512, 1024, 2048, 4096)
PAPER_SPACE: dict[str, Space] = {
    "stablemiss": {
        "hidden": Choice(*_WIDTHS),
        "layers": Choice(1, 2, 3),
        "g_hidden": Choice(*((width,) * layers for layers in (1, 2, 3) for width in _WIDTHS)),
    },
    "stablenet": {
        "hidden": Choice((), *((width,) * layers for layers in (1, 2, 3) for width in _WIDTHS)),
        "lambda_p": Choice(None, 0.1, 1.0, 10.0, 70.0, 300.0),
    },
}


@dataclass(frozen=True)
class Budget:
    """Size of the data and effort per fit of a reproduction, the same for all methods."""

    name: str
    n_features: int  # number of features of synthetic data
    n_rows: int  # training rows of synthetic data
    n_test_rows: int  # test rows of synthetic data
    # Time in which a fit should end on one core. A slower fit is reported but not stopped, because scores
    # must not depend on the machine.
    seconds: float
    n_real_rows: int | None = None  # maximum number of training rows of a real table; None: all
    n_images: int = 8192  # training images, of which a tenth is for validation
    n_test_images: int = 2000
    window_stride: int = 5  # every fifth window of a sensor network is used, so that all hours occur
    has_arrays: bool = True  # whether tables of images and sensor networks are run
    # Missing rates to run; table columns with other rates are skipped. None: run all.
    levels: tuple[float, ...] | None = None
    # Missing rates at which models are trained; columns that need others are skipped. None: all.
    train_levels: tuple[float, ...] | None = None
    # The same for tables in which every column needs its own training, which cost the most. None: all.
    levels_if_trained_per_column: tuple[float, ...] | None = None
    n_instances: int | None = None  # instances of every table; None: each table's own `n_instances`
    # Rows drawn in addition to `n_rows` for validation; None takes a share of `n_rows`.
    n_validation_rows: int | None = None
    n_trials: int = 0  # trials of a hyper-parameter search before each fit
    is_brief: bool = False  # fit every method with its `brief` parameters
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict, compare=False)  # method → parameters
    # Methods whose labels are run, beside references and the constant; None: all.
    methods: tuple[str, ...] | None = None
    # Seed of instance 0. Methods were developed on populations with small seeds, so this one is large.
    first_seed: int = 1000
    # Draw each mechanism from a separate generator, so that it is the same in every run of an instance; False
    # draws it from the generator of the training rows.
    separate_mechanism_rng: bool = True

    def columns(self, table: PaperTable) -> list[TableColumn]:
        """The columns of a table or figure that are run at this budget."""
        return [
            column
            for column in table.columns
            if (self.levels is None or {column.train_level, column.test_level} <= set(self.levels))
            and (
                self.train_levels is None
                or {column.train_level, table.reference_level(column)} <= set(self.train_levels)
            )
            and (
                self.levels_if_trained_per_column is None
                or not table.trains_for_each_column
                or column.train_level in self.levels_if_trained_per_column
            )
        ]

    def array_columns(self, table: ArrayTable) -> tuple[ArrayColumn, ...]:
        """The columns of a table of images or sensors that are run at this budget."""
        return tuple(
            column
            for column in table.columns
            if self.levels is None or not table.has_levels or column.test.level in self.levels
        )

    def labels(self, table: PaperTable) -> list[str]:
        """The labels of a table or figure that are run at this budget."""
        return [
            label
            for label in table.methods
            if self.methods is None or label not in LABELS or LABELS[label][0] in self.methods
        ]

    def instances(self, table: PaperTable | ArrayTable) -> range:
        """The instances of a table or figure that are run at this budget."""
        return range(table.n_instances if self.n_instances is None else self.n_instances)


def _same_settings(names: str, **parameters: Any) -> dict[str, dict[str, Any]]:
    """Method → parameters, the same for all methods in a string of names."""
    return {name: dict(parameters) for name in names.split()}


# PAPER: a thousand epochs in batches of 64 for all methods trained by gradient descent.
_TRAINED = "neumiss partial_vae miwae p_bigan stablenet stablemiss gain misgan mirrams mask_dro"
# PAPER: trained with Adam at a learning rate of 1e-3; no early stopping and no weight decay are mentioned.
_AS_PUBLISHED = {
    "max_epochs": 1000,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "patience": None,
    "weight_decay": 0.0,
}
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
            n_images=300,
            n_test_images=100,
            window_stride=60,
            levels=(0.1, 0.5, 0.9),
            n_instances=1,
            is_brief=True,
        ),
        # DEVIATION: early stopping and each method's own batch size, because networks overfit within 1000
        # epochs; `as_published` shows by how much. No search, because of its cost: the settings were compared
        # once, on other data (benchmarks/default_settings.py). Tables 2, 10 and 11 have five of their nine
        # columns, each of which needs its own training.
        Budget(
            name="standard",
            n_features=50,
            n_rows=16384,
            n_test_rows=8192,
            seconds=240,
            levels_if_trained_per_column=(0.1, 0.3, 0.5, 0.7, 0.9),
        ),
        Budget(
            name="paper",
            n_features=50,
            n_rows=16384,
            n_test_rows=16384,
            seconds=24 * 3600,
            n_instances=5,
            n_trials=30,
            has_arrays=False,
            settings=_same_settings(_TRAINED, max_epochs=1000, batch_size=64),
        ),
        Budget(
            name="as_published",
            n_features=50,
            n_rows=16384,
            n_test_rows=8192,
            seconds=24 * 3600,
            n_instances=1,
            has_arrays=False,
            n_validation_rows=16384,
            train_levels=(0.1, 0.5, 0.9),
            settings={
                **_same_settings("neumiss stablemiss", **_AS_PUBLISHED),
                # AUTHORS' CODE: StableNet keeps 128 rows.
                "stablenet": {**_AS_PUBLISHED, "n_memory": 128},
            },
            methods=("neumiss", "stablenet", "stablemiss"),
        ),
    )
}


def demo_budget(seed: int = 0, rows: int = 16384) -> Budget:
    """Budget of the demo: one instance with this seed.

    Parameters
    ----------
    seed : int, default=0
        Fixes population, rows, masks and fits.
    rows : int, default=16384
        Number of training rows; there are half as many test rows. Raising it lowers the gaps of methods
        that can represent the best predictor, makes scores less noisy, and takes longer.
    """
    return Budget(
        name="demo",
        n_features=50,
        n_rows=rows,
        n_test_rows=rows // 2,
        seconds=240,
        n_instances=1,
        first_seed=seed,
        separate_mechanism_rng=False,
    )


def settings_of(label: str, mechanism: str, is_real: bool, budget: Budget) -> tuple[str, dict[str, Any]]:
    """The method of a label, and the parameters that differ from its defaults.

    Parameters
    ----------
    label : str
        One of `LABELS`.
    mechanism : str
        Missingness mechanism of the training rows.
    is_real : bool
        Whether the table is real. On real tables predictors are non-linear.
    budget : Budget

    Examples
    --------
    >>> settings_of("stablemiss", "mar", is_real=False, budget=BUDGETS["standard"])
    ('stablemiss', {'decorrelate': 'full', 'form': 'paper', 'gamma': (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)})
    """
    name, defining = LABELS[label]
    for_real = REAL_SETTINGS.get(name, {}) if is_real else {}
    for_mechanism = MCAR.get(label, {}) if mechanism.startswith("mcar") else {}
    for_tables = {} if budget.is_brief else TABLE_SETTINGS.get(name, {})
    return name, {**for_tables, **for_real, **budget.settings.get(name, {}), **defining, **for_mechanism}
