"""Figure 3: what decorrelation costs where columns are independent."""

from stablemiss.experiments.exhibit import ABLATION, Column, Exhibit
from stablemiss.missingness import LEVELS

FIGURE3 = Exhibit(
    name="figure3",
    title="Gaussian-Ind under independent MCAR, trained at 10% missing",
    claim="Where columns and masks depend on nothing, the error with weights is close to that without them.",
    dataset="gaussian_ind",
    train_mechanism="mcar_independent",
    test_mechanism="mcar_independent",
    columns=tuple(Column(0.1, level) for level in LEVELS),
    methods=ABLATION,
)
