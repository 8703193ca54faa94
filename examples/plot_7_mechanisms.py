"""
Missingness mechanisms
======================

A mechanism hides values in a controlled way, at any level. Rows are drawn downwards, columns across; dark
cells are missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from stablemiss import plot_missingness
from stablemiss.datasets import make_gaussian
from stablemiss.missingness import MAR, MNAR, MCARIndependent, MCARWindow, Outage, SensorOutage

rng = np.random.default_rng(0)
X, _ = make_gaussian(n_features=12, random_state=0).draw(60, rng)
mechanisms = {
    "MCARIndependent": MCARIndependent(0.4, spread=0),
    "MCARWindow": MCARWindow(0.4, spread=0),
    "MAR": MAR(0.4, spread=0),
    "MNAR": MNAR(0.4, spread=0),
    "Outage": Outage([2, 3, 8], level=0.5),
    "SensorOutage": SensorOutage(0.4),
}
figure, panels = plt.subplots(2, 3, figsize=(9, 7), layout="constrained")
for axes, (name, mechanism) in zip(panels.flat, mechanisms.items(), strict=True):
    plot_missingness(mechanism.fit(X, rng).hide(X, rng), ax=axes)
    axes.set_title(name)
    axes.set_xticks([])

# %%
# The same mechanism at several levels shares its drivers and coefficients, so that a comparison changes
# one thing at a time. The level of ``MAR`` is that of the columns that can go missing: its driving
# columns stay observed.
mechanism = MAR(0.4, spread=0).fit(X, rng)
for level in (0.1, 0.5, 0.9):
    missing = np.isnan(mechanism.at(level).hide(X, rng))
    can_vanish = np.isnan(mechanism.at(1.0).hide(X, rng)).any(axis=0)
    print(f"{level:.0%} asked for, {missing[:, can_vanish].mean():.0%} missing")
