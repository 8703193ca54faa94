"""Table 8: one Gaussian under MAR."""

from stablemiss.experiments.exhibit import Column, Exhibit
from stablemiss.missingness import LEVELS

TABLE8 = Exhibit(
    name="table8",
    title="Gaussian under MAR, trained at 50% missing",
    dataset="gaussian",
    train_law="mar",
    test_law="mar",
    columns=tuple(Column(0.5, level) for level in LEVELS),
)
