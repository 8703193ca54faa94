"""Every table and figure, each in a file of its own."""

from stablemiss.experiments.exhibit import Exhibit
from stablemiss.experiments.exhibits.figure2 import FIGURE2
from stablemiss.experiments.exhibits.figure3 import FIGURE3
from stablemiss.experiments.exhibits.table1 import TABLE1
from stablemiss.experiments.exhibits.table2 import TABLE2
from stablemiss.experiments.exhibits.table3 import TABLE3
from stablemiss.experiments.exhibits.table6 import TABLE6
from stablemiss.experiments.exhibits.table7 import TABLE7
from stablemiss.experiments.exhibits.table8 import TABLE8
from stablemiss.experiments.exhibits.table9 import TABLE9
from stablemiss.experiments.exhibits.table10 import TABLE10
from stablemiss.experiments.exhibits.table11 import TABLE11

EXHIBITS: dict[str, Exhibit] = {
    exhibit.name: exhibit
    for exhibit in (
        TABLE1,
        TABLE2,
        TABLE3,
        TABLE6,
        TABLE7,
        TABLE8,
        TABLE9,
        TABLE10,
        TABLE11,
        FIGURE2,
        FIGURE3,
    )
}
# What cannot be run yet, and what it needs.
LATER = {"table4": "images (MNIST)", "table5": "road networks (traffic)"}

__all__ = ["EXHIBITS", "LATER"]
