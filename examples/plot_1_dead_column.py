"""
A column dies
=============

A model is fitted to complete rows. After training, one column stops arriving. LightGBM accepts missing
values, so that nothing fails: the predictions are just wrong. AnyMask is fitted to the same complete
rows, and uses what the other columns say about the missing one.
"""

import matplotlib.pyplot as plt
import numpy as np

from stablemiss import AnyMaskRegressor, MissingRegressor
from stablemiss.datasets import make_flats

flats = make_flats(2000, random_state=0)  # generated: flats to let, with their rents
X_train, y_train = flats.X[:1500], flats.y[:1500]
X_test, y_test = flats.X[1500:], flats.y[1500:]
X_dead = X_test.copy()
X_dead[:, flats.feature_names.index("area")] = np.nan

# %%
# ``on_unseen_missing="ignore"`` switches off the warning that stablemiss's own LightGBM would give,
# because other libraries give none.
models = {
    "LightGBM": MissingRegressor("boosting", random_state=0, on_unseen_missing="ignore"),
    "AnyMask": AnyMaskRegressor(budget="fast", random_state=0),
}
for model in models.values():
    model.fit(X_train, y_train)

# %%
# Points on the dashed line are right. LightGBM no longer tells small flats from large ones; AnyMask
# infers the size from rooms and bathrooms.
figure, panels = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for axes, (name, model) in zip(panels, models.items(), strict=True):
    axes.scatter(y_test, model.predict(X_test), s=8, color="#bbbbbb", label="complete")
    axes.scatter(y_test, model.predict(X_dead), s=8, color="#d55e00", label="without area")
    axes.axline((1000, 1000), slope=1, color="black", linestyle="--", linewidth=1)
    axes.set_title(f"{name}: R² {model.score(X_test, y_test):.2f} → {model.score(X_dead, y_test):.2f}")
    axes.set_xlabel("rent")
panels[0].set_ylabel("predicted rent")
panels[0].legend()
