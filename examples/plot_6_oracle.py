"""
How far from the best possible?
===============================

For synthetic populations the best possible prediction, E[y | observed values], is known exactly. All
methods are trained with 10% of the values missing and tested with up to 90%.
"""

import matplotlib.pyplot as plt
import numpy as np

from stablemiss import MissingRegressor
from stablemiss.datasets import make_gaussian_mix
from stablemiss.missingness import MAR

rng = np.random.default_rng(0)
population = make_gaussian_mix(n_features=12, random_state=0)
X, y = population.draw(2500, rng)
X_test, y_test = population.draw(1500, rng)
mechanism = MAR(level=0.1).fit(X, rng)
X_train = mechanism.hide(X, rng)

levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
tests = [mechanism.at(level).hide(X_test, rng) for level in levels]


def rmse(prediction):
    return np.sqrt(np.mean((prediction - y_test) ** 2))


best = np.array([rmse(population.bayes(test)) for test in tests])
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for method in ("ols", "boosting", "pattern_submodels", "em_mixture"):
    model = MissingRegressor(method, random_state=0, on_unseen_missing="ignore").fit(X_train, y)
    axes.plot(levels, [rmse(model.predict(test)) for test in tests] - best, marker="o", label=method)
axes.plot(levels, [np.std(y_test)] * 5 - best, color="black", linestyle=":", label="constant")
axes.axhline(0, color="black", linewidth=1)
axes.set(xlabel="share of values missing in the test", ylabel="RMSE above the best possible")
axes.legend()

# %%
# The data are a mixture of Gaussians, which is what ``em_mixture`` assumes: it should, and does, come
# close. On real tables no model has this advantage.
