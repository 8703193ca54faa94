"""Category columns as numbers: which levels there are, and what stands for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.preprocessing import OrdinalEncoder, TargetEncoder

from stablemiss.data import Floats
from stablemiss.seeding import Rng, draw_seed


class Categories:
    """The levels of one column and the numbers that stand for each.

    Parameters
    ----------
    levels : list of str
        Levels seen in training; any other string counts as missing.
    embedding : (n_levels, k) float64
        The row of numbers for each level: a one-hot code, or target means.

    Examples
    --------
    >>> colours = Categories.one_hot(["blue", "green", "red"])
    >>> colours.encode(np.array(["red", None, "mauve"], dtype=object)).tolist()
    [[0.0, 0.0, 1.0], [nan, nan, nan], [nan, nan, nan]]
    """

    def __init__(self, levels: list[str], embedding: Floats):
        self.levels = list(levels)
        self.embedding = np.asarray(embedding, dtype=np.float64)
        as_column = np.array(self.levels, dtype=object)[:, None]
        self._ordinal = OrdinalEncoder(
            categories=[as_column[:, 0]],
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
        ).fit(as_column)
        # Arrays even where the user has asked scikit-learn for data frames throughout.
        self._ordinal.set_output(transform="default")

    @classmethod
    def one_hot(cls, levels: list[str]) -> Categories:
        """One column per level; a single column for two levels, which says the same."""
        code = np.eye(len(levels))
        return cls(levels, code[:, 1:] if len(levels) == 2 else code)

    def codes(self, column: NDArray) -> Floats:
        """Position of each entry among the levels, (n,); NaN for what is missing or unknown."""
        return self._ordinal.transform(column[:, None])[:, 0]

    def encode(self, column: NDArray) -> Floats:
        """The numbers for each entry, (n, k); NaN for what is missing or unknown."""
        codes = self.codes(column)
        with_missing = np.vstack([self.embedding, np.full(self.embedding.shape[1], np.nan)])
        return with_missing[np.where(np.isnan(codes), len(self.levels), codes).astype(np.int64)]


def learn_target_means(
    levels: list[str], sample: NDArray, outputs: Floats, rng: Rng, smoothing: float = 5.0
) -> tuple[Categories, Floats]:
    """Embed each level as its mean target, for columns with too many levels to give each its own column.

    Parameters
    ----------
    levels : list of str
        Distinct entries of `sample`, at least two.
    sample : (n,) object
        The training rows of the column, None = missing.
    outputs : (n, k)
        What is averaged: standardised targets, or indicators of the classes.
    rng : numpy Generator
        Draws the folds.
    smoothing : float
        A level's mean counts as much as that of all rows once it has this many rows; raising it trusts
        rare levels less.

    Returns
    -------
    categories : Categories
        The means over all of `sample`, which stand for the levels in new rows.
    crossed : (n, k)
        The numbers to train with: each row's means come from rows of other folds, so that no row is told
        its own target. NaN where missing.
    """
    coder = Categories(levels, np.zeros((len(levels), 1)))
    codes = coder.codes(sample)[:, None]
    observed = np.flatnonzero(~np.isnan(codes[:, 0]))
    codes, outputs = codes[observed], outputs[observed]
    encoder = TargetEncoder(target_type="continuous", smooth=smoothing).set_output(transform="default")
    folds = KFold(min(5, len(observed)), shuffle=True, random_state=draw_seed(rng))

    crossed = np.full((len(sample), outputs.shape[1]), np.nan)
    embedding = np.empty((len(levels), outputs.shape[1]))
    every_level = np.arange(len(levels), dtype=np.float64)[:, None]
    for k, output in enumerate(outputs.T):
        for others, own in folds.split(codes):
            encoder.fit(codes[others], output[others])
            crossed[observed[own], k] = encoder.transform(codes[own])[:, 0]
        embedding[:, k] = encoder.fit(codes, output).transform(every_level)[:, 0]
    return Categories(levels, embedding), crossed
