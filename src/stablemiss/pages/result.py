"""Results that can be read as data, in a notebook, and as a page."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, final

from stablemiss.pages.document import check_can_render, write_page


class PageResult(ABC):
    """Base class of results that render themselves: `to_dict`, `to_frame`, `save_html`, and in notebooks."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything that was computed, in types that the json module can write."""

    @abstractmethod
    def to_frame(self) -> Any:
        """The main table of the result as a data frame."""

    @abstractmethod
    def to_html(self) -> str:
        """One HTML page that needs nothing else: no network, no scripts."""

    @abstractmethod
    def __str__(self) -> str:
        """The result as text for a terminal."""

    @final
    def save_html(self, path: str | Path) -> Path:
        """Write the page. An earlier file is replaced only when the new one is complete.

        Parameters
        ----------
        path : str or path
            Where to write it, such as "report.html".
        """
        return write_page(self.to_html(), path)

    @final
    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style does not change the notebook around it."""
        from html import escape

        check_can_render()
        style = "width: 100%; height: 40rem; border: 0"
        return f'<iframe srcdoc="{escape(self.to_html())}" style="{style}" title="Report"></iframe>'


def to_plain(value: Any) -> Any:
    """The same in types that JSON has: data classes become dictionaries, numbers that are not finite None.

    Examples
    --------
    >>> to_plain({"errors": (1.5, float("nan"))})
    {'errors': [1.5, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
