"""Numeric encoding of categorical columns: one-hot, or target encoding for columns with many categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.preprocessing import OrdinalEncoder, TargetEncoder

from stablemiss.data import Floats
from stablemiss.seeding import Rng, draw_seed


class CategoryEncoder:
    """Encodes one categorical column as numbers.

    Parameters
    ----------
    categories : list of str
        Categories seen in training; any other string counts as missing.
    embedding : (n_categories, k) float64
        Numbers that represent each category: a one-hot code, or target means.

    See Also
    --------
    fit_target_encoding : Represents each category by its mean target.

    Examples
    --------
    >>> colours = CategoryEncoder.one_hot(["blue", "green", "red"])
    >>> colours.encode(np.array(["red", None, "mauve"], dtype=object)).tolist()
    [[0.0, 0.0, 1.0], [nan, nan, nan], [nan, nan, nan]]
    """

    def __init__(self, categories: list[str], embedding: Floats):
        self.categories = list(categories)
        self.embedding = np.asarray(embedding, dtype=np.float64)
        as_column = np.array(self.categories, dtype=object)[:, None]
        self._ordinal = OrdinalEncoder(
            categories=[as_column[:, 0]],
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
        ).fit(as_column)
        # Return arrays even if scikit-learn is configured globally to return data frames.
        self._ordinal.set_output(transform="default")

    @classmethod
    def one_hot(cls, categories: list[str]) -> CategoryEncoder:
        """One column per category, or a single column if there are only two categories."""
        code = np.eye(len(categories))
        return cls(categories, code[:, 1:] if len(categories) == 2 else code)

    def codes(self, column: NDArray) -> Floats:
        """Index of each entry among the categories, (n,); NaN if missing or unknown."""
        return self._ordinal.transform(column[:, None])[:, 0]

    def encode(self, column: NDArray) -> Floats:
        """Numbers that represent each entry, (n, k); NaN if missing or unknown."""
        codes = self.codes(column)
        with_missing = np.vstack([self.embedding, np.full(self.embedding.shape[1], np.nan)])
        return with_missing[np.where(np.isnan(codes), len(self.categories), codes).astype(np.int64)]


def fit_target_encoding(
    categories: list[str], column: NDArray, outputs: Floats, rng: Rng, smoothing: float = 5.0
) -> tuple[CategoryEncoder, Floats]:
    """Represent each category by its mean target, for columns with too many categories for one-hot encoding.

    Parameters
    ----------
    categories : list of str
        Distinct entries of `column`, at least two.
    column : (n,) object
        The column in the training rows; None = missing.
    outputs : (n, k)
        Numbers to average for each category: standardised targets, or class indicators.
    rng : numpy Generator
        Draws the folds.
    smoothing : float, default=5.0
        Number of rows at which the mean of a category and the overall mean have equal influence. Raising it
        shrinks the means of rare categories towards the overall mean.

    Returns
    -------
    encoder : CategoryEncoder
        Means over all of `column`, used to encode new rows.
    cross_fitted : (n, k)
        Encoding of the training rows. The means for each row come from the other folds, so that no row
        is encoded with its own target. NaN where missing.

    See Also
    --------
    CategoryEncoder.one_hot : Encoding of columns with few categories.
    """
    codes = CategoryEncoder(categories, np.zeros((len(categories), 1))).codes(column)[:, None]
    observed = np.flatnonzero(~np.isnan(codes[:, 0]))
    codes, outputs = codes[observed], outputs[observed]
    encoder = TargetEncoder(target_type="continuous", smooth=smoothing).set_output(transform="default")
    folds = KFold(min(5, len(observed)), shuffle=True, random_state=draw_seed(rng))

    cross_fitted = np.full((len(column), outputs.shape[1]), np.nan)
    embedding = np.empty((len(categories), outputs.shape[1]))
    all_codes = np.arange(len(categories), dtype=np.float64)[:, None]
    for k, output in enumerate(outputs.T):
        for train, test in folds.split(codes):
            encoder.fit(codes[train], output[train])
            cross_fitted[observed[test], k] = encoder.transform(codes[test])[:, 0]
        embedding[:, k] = encoder.fit(codes, output).transform(all_codes)[:, 0]
    return CategoryEncoder(categories, embedding), cross_fitted
