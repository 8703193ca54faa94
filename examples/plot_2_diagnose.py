"""
Has the missingness shifted?
============================

:func:`stablemiss.diagnose` compares new rows with rows from before, without labels: which columns are
missing in another way, on what that depends, and which error a model will have.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from stablemiss import MissingRegressor, diagnose, plot_missingness_shift
from stablemiss.datasets import make_flats

flats = make_flats(2500, random_state=1)
table = pd.DataFrame(flats.X, columns=flats.feature_names)
model = MissingRegressor("boosting", random_state=0, on_unseen_missing="ignore")
model.fit(table[:1500], flats.y[:1500])

before, now = table[1500:2000], table[2000:].copy()
now.loc[now.index % 5 < 2, "rent_nearby"] = np.nan  # a supplier that often fails
now["energy"] = now["energy"].where(now["year_built"] > 1980)  # and a field that old buildings leave empty

# %%
# The rates show the first change.
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
plot_missingness_shift(before, now, ax=axes)

# %%
# The diagnosis names both, says on what the second depends, and forecasts the error. ``save_html`` writes
# it as a page.
result = diagnose(before, now, model, flats.y[1500:2000])
print(result)

# %%
# In practice the labels of the new rows come later. Here they are known, so that the forecast can be
# compared:
error = np.sqrt(np.mean((model.predict(now) - flats.y[2000:]) ** 2))
print(f"forecast {result.forecast.after:.0f}, actual {error:.0f}")
