"""Warnings about rows that differ from those in training."""

from __future__ import annotations


class UnseenMissingWarning(UserWarning):
    """Values are missing in columns that were never missing in training.

    There were no such rows in training, so predictions may be inaccurate without any other indication.
    Use ``on_unseen_missing="ignore"`` to silence the warning, or ``"raise"`` to turn it into an error.

    See Also
    --------
    UnknownCategoryWarning : Categories that did not occur in training.
    stablemiss.diagnose : Test whether the missingness has changed since training.

    Examples
    --------
    >>> import warnings
    >>> from stablemiss import MissingRegressor
    >>> model = MissingRegressor(method="ols").fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     prediction = model.predict([[None]])
    >>> caught[0].category.__name__
    'UnseenMissingWarning'
    """


class UnknownCategoryWarning(UnseenMissingWarning):
    """Categories did not occur in training; they count as missing.

    Use ``on_unseen_missing="ignore"`` to silence the warning, or ``"raise"`` to turn it into an error.

    See Also
    --------
    UnseenMissingWarning : Values are missing where none were in training.

    Examples
    --------
    >>> import warnings
    >>> from stablemiss import MissingRegressor
    >>> model = MissingRegressor(method="ols").fit([["a"], ["b"]] * 2, [1.0, 2.0] * 2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     prediction = model.predict([["c"]])
    >>> caught[0].category.__name__
    'UnknownCategoryWarning'
    """


class OutOfRangeWarning(UserWarning):
    """Values are far outside the range in training, so predictions may be inaccurate.

    The parameter ``on_out_of_range`` decides whether such values are clipped or count as missing; with
    ``"raise"`` they raise an error instead.

    See Also
    --------
    UnseenMissingWarning : Values are missing where none were in training.

    Examples
    --------
    >>> import warnings
    >>> from stablemiss import MissingRegressor
    >>> model = MissingRegressor(method="ols").fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     prediction = model.predict([[-999.0]])
    >>> caught[0].category.__name__
    'OutOfRangeWarning'
    """
