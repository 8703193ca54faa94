"""Numeric encoding of categorical columns: one-hot, or target encoding for columns with many categories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats
from stablemiss.seeding import Rng, draw_seed

# Encoded columns up to which a table is not called wide. AnyMask fits its mixture to at most as many.
MAX_WIDTH = 160
# Numbers of categories for one-hot encoding from which "auto" chooses, the first one unless a table is wide.
ONE_HOT_CHOICES = (12, 8, 6, 4, 3, 2)


class CategoryEncoder:
    """Encodes one categorical column as numbers.

    Parameters
    ----------
    categories : list of str
        Categories seen in training; any other string is unknown and counts as missing.
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
        # A dictionary is faster than scikit-learn's OrdinalEncoder, most of all for a single row.
        self._codes: dict[str | None, int] = {category: k for k, category in enumerate(self.categories)}
        self._codes[None] = self.missing_code
        self._embedding = np.vstack([self.embedding, np.full((2, self.embedding.shape[1]), np.nan)])

    @property
    def width(self) -> int:
        """Number of encoded columns, k."""
        return self.embedding.shape[1]

    @property
    def missing_code(self) -> int:
        """The code of missing entries, after those of all categories."""
        return len(self.categories)

    @property
    def unknown_code(self) -> int:
        """The code of entries that are not among the categories."""
        return len(self.categories) + 1

    @classmethod
    def one_hot(cls, categories: list[str]) -> CategoryEncoder:
        """One column per category, or a single column if there are only two categories."""
        code = np.eye(len(categories))
        return cls(categories, code[:, 1:] if len(categories) == 2 else code)

    def codes(self, column: NDArray) -> NDArray[np.int64]:
        """Index of each entry among the categories, (n,), or `missing_code` or `unknown_code`."""
        code_of, unknown = self._codes.get, self.unknown_code
        return np.array([code_of(entry, unknown) for entry in column.tolist()], dtype=np.int64)

    def encode(self, column: NDArray) -> Floats:
        """Numbers that represent each entry, (n, k); NaN if missing or unknown."""
        return self.embed(self.codes(column))

    def embed(self, codes: NDArray[np.int64]) -> Floats:
        """Numbers that represent each code, (n, k); NaN if missing or unknown."""
        return self._embedding[codes]


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
    # Imported late, because few tables need it.
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import TargetEncoder

    all_codes = CategoryEncoder(categories, np.zeros((len(categories), 1))).codes(column)
    observed = np.flatnonzero(all_codes < len(categories))
    codes, outputs = all_codes[observed, None].astype(np.float64), outputs[observed]
    encoder = TargetEncoder(target_type="continuous", smooth=smoothing).set_output(transform="default")
    folds = KFold(min(5, len(observed)), shuffle=True, random_state=draw_seed(rng))

    cross_fitted = np.full((len(column), outputs.shape[1]), np.nan)
    embedding = np.empty((len(categories), outputs.shape[1]))
    every_code = np.arange(len(categories), dtype=np.float64)[:, None]
    for k, output in enumerate(outputs.T):
        for train, test in folds.split(codes):
            encoder.fit(codes[train], output[train])
            cross_fitted[observed[test], k] = encoder.transform(codes[test])[:, 0]
        embedding[:, k] = encoder.fit(codes, output).transform(every_code)[:, 0]
    return CategoryEncoder(categories, embedding), cross_fitted


def choose_max_one_hot(n_categories: Sequence[int], n_others: int, n_outputs: int) -> int:
    """The largest of ONE_HOT_CHOICES with which a table is not wide; the first if none makes it so.

    Parameters
    ----------
    n_categories : sequence of int
        Number of categories of each categorical column.
    n_others : int
        Encoded columns of all other columns.
    n_outputs : int
        Encoded columns of a target-encoded column.

    Examples
    --------
    >>> choose_max_one_hot([3, 10], n_others=5, n_outputs=1)
    12
    >>> choose_max_one_hot([3, *[10] * 20], n_others=5, n_outputs=1)
    8
    """

    def width(max_one_hot: int) -> int:
        one_hot = (n if n > 2 else 1 for n in n_categories if n <= max_one_hot)
        return n_others + sum(one_hot) + n_outputs * sum(n > max_one_hot for n in n_categories)

    return next((n for n in ONE_HOT_CHOICES if width(n) <= MAX_WIDTH), ONE_HOT_CHOICES[0])
