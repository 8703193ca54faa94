"""
Adapt to a change that stays
============================

When the missingness has changed for good, ``adapt`` makes a model for the new masks from the training
rows and the masks of new rows. It needs no labels of the new rows, and a fraction of the time of a fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from stablemiss import AnyMaskRegressor, MissingRegressor
from stablemiss.datasets import make_flats

flats = make_flats(2500, random_state=2)
X_train, y_train = flats.X[:1500], flats.y[:1500]
X_new, y_new = flats.X[1500:].copy(), flats.y[1500:]
dead = [flats.feature_names.index(name) for name in ("area", "rent_nearby")]
X_new[:, dead] = np.nan  # two suppliers stop

model = AnyMaskRegressor(budget="fast", random_state=0).fit(X_train, y_train)
adapted = model.adapt(X_new, X_train, y_train)

# %%
# For comparison: LightGBM as it was, and LightGBM retrained without the two columns.
lightgbm = MissingRegressor("boosting", random_state=0, on_unseen_missing="ignore").fit(X_train, y_train)
retrained = MissingRegressor("boosting", random_state=0).fit(np.delete(X_train, dead, axis=1), y_train)
predictions = {
    "LightGBM": lightgbm.predict(X_new),
    "AnyMask": model.predict(X_new),
    "AnyMask, adapted": adapted.predict(X_new),
    "LightGBM, retrained": retrained.predict(np.delete(X_new, dead, axis=1)),
}
errors = {name: np.sqrt(np.mean((predicted - y_new) ** 2)) for name, predicted in predictions.items()}

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
bars = axes.barh(list(errors), list(errors.values()), color=["#d55e00", "#0072b2", "#0072b2", "#999999"])
axes.bar_label(bars, fmt="%.0f", padding=3)
axes.invert_yaxis()
axes.set_xlabel("RMSE without area and rents nearby, euros")
axes.set_xlim(0, 1.1 * max(errors.values()))

# %%
# The adapted model is calibrated for the new masks, too.
low, high = adapted.predict_interval(X_new, coverage=0.9).T
print(f"90% intervals contain {np.mean((low <= y_new) & (y_new <= high)):.0%} of the rents")
