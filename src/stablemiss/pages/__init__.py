"""What all HTML pages share: style, pictures, and results that render themselves as a page."""

from stablemiss.pages.document import check_can_render, make_environment, write_page
from stablemiss.pages.drawing import COLOURS, INK, MARKERS, Drawing, picture
from stablemiss.pages.result import PageResult, to_plain

__all__ = [
    "COLOURS",
    "INK",
    "MARKERS",
    "Drawing",
    "PageResult",
    "check_can_render",
    "make_environment",
    "picture",
    "to_plain",
    "write_page",
]
