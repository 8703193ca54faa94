"""Table 1: trained at one level of missingness, tested at all."""

from stablemiss.experiments.exhibit import Column, Exhibit
from stablemiss.missingness import LEVELS

TABLE1 = Exhibit(
    name="table1",
    title="Gaussian-Mix under MAR, trained at 50% missing",
    dataset="gaussian_mix",
    train_law="mar",
    test_law="mar",
    columns=tuple(Column(0.5, level) for level in LEVELS),
)
