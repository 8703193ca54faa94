"""What every error about invalid input must say."""

import re
from pathlib import Path
from time import perf_counter

import pytest

import stablemiss

PACKAGE = Path(stablemiss.__file__).parent
# An error says what is allowed, or what to do.
ADVICE = re.compile(
    r"\b(must|needs?|requires|use|pass|give|check|convert|remove|replace|correct|split|set|rescale|reshape|rename|drop|choose|specify|fit)\b|are:",
    re.I,
)


@pytest.fixture
def refuses():
    """A function that calls and asserts that the call is refused at once with one helpful sentence or two."""

    def check(call, *facts):
        start = perf_counter()
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        # Refused before any fit; the margin is for machines under load.
        assert perf_counter() - start < 5
        message = str(caught.value)
        assert Path(caught.traceback[-1].path).is_relative_to(PACKAGE), f"raised by a library: {message}"
        assert "\n" not in message
        assert len(message) <= 400
        assert message.endswith(".")
        assert ADVICE.search(message), message
        assert [fact for fact in facts if fact not in message] == [], message

    return check
