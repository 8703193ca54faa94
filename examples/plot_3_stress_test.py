"""
Stress-test any model
=====================

:func:`stablemiss.stress_test` hides values of rows that you know, in several ways and amounts, and
measures what that costs any model with scikit-learn's interface. Here: boosted trees, which accept
missing values, and a ridge regression behind an imputer.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stablemiss import stress_test
from stablemiss.datasets import make_flats

flats = make_flats(2000, random_state=0)
table = pd.DataFrame(flats.X, columns=flats.feature_names)
models = {
    "trees": HistGradientBoostingRegressor(random_state=0),
    "ridge": make_pipeline(SimpleImputer(), StandardScaler(), RidgeCV()),
}
for model in models.values():
    model.fit(table[:1500], flats.y[:1500])

result = stress_test(models, table[1500:], flats.y[1500:], levels=[0.1, 0.3, 0.5, 0.7, 0.9])
print(result.verdict)

# %%
# Errors against the share of missing values. Above the dashed line, a constant would be better.
scores = result.to_frame()
figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for axes, mechanism in zip(panels, ["MCAR", "MNAR"], strict=True):
    for name, part in scores[scores["mechanism"] == mechanism].groupby("model"):
        axes.plot(part["missing_share"], part["error"], marker="o", label=name)
    axes.axhline(result.constant, color="black", linestyle="--", linewidth=1, label="constant")
    axes.set_title(mechanism)
    axes.set_xlabel("share of values missing")
panels[0].set_ylabel("RMSE")
panels[0].legend()

# %%
# What would it cost to lose one column altogether?
costs = result.columns_frame().pivot(index="column", columns="model", values="cost")
costs = costs.sort_values("trees").tail(6)
axes = costs.plot.barh(figsize=(7, 3.4), xlabel="increase of the RMSE", ylabel="")
axes.figure.tight_layout()
