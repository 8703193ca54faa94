"""Loading an estimator from a model file."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import shorten

from stablemiss import __version__
from stablemiss.checks import check_path
from stablemiss.estimators.anymask import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators.archive import ArchiveError, read_tree
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.missing import MissingClassifier, MissingRegressor
from stablemiss.estimators.stablemiss import StableMissClassifier, StableMissRegressor

# A model file contains the name of one of these classes; no other class is ever instantiated.
ESTIMATORS: dict[str, type[MissingEstimator]] = {
    estimator.__name__: estimator
    for estimator in (
        AnyMaskRegressor,
        AnyMaskClassifier,
        MissingRegressor,
        MissingClassifier,
        StableMissRegressor,
        StableMissClassifier,
    )
}


def load_model(path: str | os.PathLike[str]) -> MissingEstimator:
    """Load a fitted estimator from a file that `save` wrote; its predictions are bit-identical.

    No code from the file is executed, and nothing is unpickled. The types, sizes and values of all parts are
    checked before anything is built, including every tree of LightGBM. A damaged or manipulated file
    therefore raises `ArchiveError`; it does not crash the process, and time and memory depend on the size of
    the file, not on numbers written in it. These checks do not make predictions correct: the checksum reveals
    damage, but whoever edits the parameters of a model can also adapt its checksum. Use models only from
    sources whose predictions you trust.

    Parameters
    ----------
    path : path
        A file written by an estimator's `save`.

    Returns
    -------
    AnyMaskRegressor, AnyMaskClassifier, MissingRegressor, MissingClassifier, StableMissRegressor or \
StableMissClassifier

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ArchiveError
        If the file is not a model, is damaged or edited, or has another format version.

    See Also
    --------
    AnyMaskRegressor.save : Writes such a file.

    Examples
    --------
    >>> import tempfile
    >>> from stablemiss import MissingRegressor, load_model
    >>> model = MissingRegressor(method="constant").fit([[1.0], [2.0]], [1.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.stablemiss")
    ...     load_model(f"{folder}/model.stablemiss").predict([[5.0]])
    array([2.])
    """
    check_path("path", path)
    path = Path(path)
    tree = read_tree(path)
    name = tree.get("estimator") if isinstance(tree, dict) else None
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ArchiveError(
            f"{str(path)!r} contains {shorten(str(name), 60)}, which this version of stablemiss does not "
            f"have. Its estimators are {', '.join(ESTIMATORS)}. Install the version that saved the model."
        )
    try:
        return ESTIMATORS[name]._from_tree(tree)
    except ArchiveError:
        raise
    except Exception as error:  # Any part of the model, LightGBM included, may reject its content.
        version = shorten(str(tree.get("stablemiss")), 20)
        reason = shorten(str(error) if isinstance(error, ValueError) else repr(error), 300)
        raise ArchiveError(
            f"{str(path)!r} contains a {name} of stablemiss {version} that this version ({__version__}) "
            f"cannot rebuild ({reason}). Install the version that saved the model, or save it again."
        ) from error
