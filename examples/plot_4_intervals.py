"""
Intervals that know what is missing
===================================

``predict_interval`` is calibrated under many masks. Its width depends on what is missing: the model says
how much it does not know.
"""

import matplotlib.pyplot as plt
import numpy as np

from stablemiss import AnyMaskRegressor
from stablemiss.datasets import make_flats
from stablemiss.missingness import MCARIndependent

flats = make_flats(2500, random_state=0)
model = AnyMaskRegressor(budget="fast", random_state=0).fit(flats.X[:1500], flats.y[:1500])
X, y = flats.X[1500:], flats.y[1500:]

rng = np.random.default_rng(0)
levels = np.linspace(0, 0.9, 7)
coverage, width = [], []
for level in levels:
    hidden = MCARIndependent(level, spread=0).fit(X, rng).hide(X, rng)
    low, high = model.predict_interval(hidden, coverage=0.9).T
    coverage.append(np.mean((low <= y) & (y <= high)))
    width.append(np.mean(high - low))

# %%
# The share of rents inside the 90% interval stays near 90%, because the interval grows.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.plot(levels, coverage, marker="o")
left.axhline(0.9, color="black", linestyle="--", linewidth=1)
left.set(ylim=(0.5, 1), xlabel="share of values missing", title="rents inside the interval")
right.plot(levels, width, marker="o", color="#d55e00")
right.set(ylim=(0, None), xlabel="share of values missing", title="mean width, euros")

# %%
# Which value would help most? ``explain_missing`` says so for each row.
row = X[:1].copy()
row[0, [0, 10]] = np.nan
explained = model.explain_missing(row)
print(explained.T)
