"""Figure 2: what each kind of decorrelation adds, where columns and masks depend on each other."""

from stablemiss.experiments.exhibit import ABLATION, Column, Exhibit
from stablemiss.missingness import LEVELS

FIGURE2 = Exhibit(
    name="figure2",
    title="Gaussian-Mix under MAR, trained at 10% missing",
    dataset="gaussian_mix",
    train_law="mar",
    test_law="mar",
    columns=tuple(Column(0.1, level) for level in LEVELS),
    methods=ABLATION,
)
