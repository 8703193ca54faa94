"""Detection of the encoding, separator and decimal mark of a CSV file from its first lines."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from stablemiss.cli.entries import MIN_NUMERIC_SHARE, is_missing_marker, is_number_text

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
# Lines from which separator and decimal mark are detected.
MAX_LINES = 500
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Attributes
    ----------
    separator : str, default=","
        Character between two fields.
    decimal : str, default="."
        Decimal mark, "." or ",". The other one may group thousands, as in 1.234.567,5.
    encoding : str, default="utf-8"
        Name of the encoding.

    Examples
    --------
    >>> Dialect(";", ",").describe()
    'semicolon-separated, decimal comma'
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def describe(self) -> str:
        """What differs from a comma-separated file in UTF-8; an empty string if nothing does."""
        parts = []
        if self.separator != ",":
            parts.append(f"{SEPARATORS.get(self.separator, repr(self.separator))}-separated")
        if self.decimal == ",":
            parts.append("decimal comma")
        if self.encoding not in ("utf-8", "utf-8-sig"):
            parts.append(self.encoding)
        return ", ".join(parts)


def detect_encoding(sample: bytes) -> str:
    """Encoding of the first bytes of a file: by byte order mark, else UTF-8 if valid, else cp1252 or latin-1.

    Parameters
    ----------
    sample : bytes
        The first bytes; a character may be cut at the end.

    Examples
    --------
    >>> detect_encoding("größe".encode()), detect_encoding("größe".encode("cp1252"))
    ('utf-8', 'cp1252')
    """
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if sample.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        if _can_decode(sample, encoding):
            return encoding
    return "latin-1"


def decode(sample: bytes, encoding: str) -> str:
    """Decode the first bytes of a file, of which the last character may be cut.

    Examples
    --------
    >>> decode("größe".encode()[:3], "utf-8")
    'gr'
    """
    return codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample)


def detect_separator(lines: list[str]) -> str:
    """Separator that splits the lines into the same number of fields, at least two; else the most regular.

    Parameters
    ----------
    lines : list of str
        The header and further complete lines.

    Examples
    --------
    >>> detect_separator(["a;b", "1,5;2,5", "3,0;4,1"])
    ';'
    """
    best, best_score = None, (0.0, 0)
    for separator in SEPARATORS:
        counts = [len(fields) for fields in split(lines, separator)]
        if not counts or counts[0] < 2:
            continue
        regular = sum(count == counts[0] for count in counts) / len(counts)
        # Half of the lines must agree with the header, so that text with commas is not split.
        if regular >= 0.5 and (regular, counts[0]) > best_score:
            best, best_score = separator, (regular, counts[0])
    if best is not None:
        return best
    # One column: any separator works that does not occur in it.
    text = "".join(lines)
    return next((separator for separator in SEPARATORS if separator not in text), ",")


def detect_decimal(lines: list[str], separator: str, usual: str | None = None) -> str:
    """Decimal mark by a majority of the columns in which numbers show it: "," or ".".

    Numbers such as 1,234 and 1.234 do not show it. If no others decide, it is the usual mark. Without a usual
    mark, 1.234 is a decimal number, and so is 1,234, unless it is in quotes in a comma-separated file.

    Parameters
    ----------
    lines : list of str
        The header and further complete lines.
    separator : str
        From `detect_separator`.
    usual : str, default=None
        Decimal mark of other files from the same source, if it is known.

    Examples
    --------
    >>> detect_decimal(["a;b", "1,5;x", "1.200,25;y"], ";")
    ','
    >>> detect_decimal(["a;b", "1.234;5"], ";"), detect_decimal(["a;b", "1.234;5"], ";", usual=",")
    ('.', ',')
    """
    n_showing: Counter[str] = Counter()  # decimal mark → number of columns that show it
    has_comma = False
    columns = list(zip(*_regular_rows(lines, separator), strict=True))
    for column in columns:
        cells = [cell.strip() for cell in column[1:] if not is_missing_marker(cell.strip())]
        if not cells:
            continue
        share = {mark: sum(is_number_text(cell, mark) for cell in cells) / len(cells) for mark in ".,"}
        if max(share.values()) < MIN_NUMERIC_SHARE:
            continue
        if share["."] != share[","]:
            n_showing[max(share, key=lambda mark: share[mark])] += 1
        else:
            has_comma |= any("," in cell for cell in cells)
    if n_showing["."] != n_showing[","]:
        return "." if n_showing["."] > n_showing[","] else ","
    # Numbers with a decimal comma would be in quotes in a comma-separated file.
    if usual is not None and (has_comma or separator != "," or len(columns) == 1):
        return usual
    return "," if has_comma and separator != "," else "."


def complete_lines(text: str) -> list[str]:
    """The first lines of a text, without the last one if it may be cut.

    Examples
    --------
    >>> complete_lines("a,b\\n1,2\\n3")
    ['a,b', '1,2']
    """
    lines = text.splitlines(keepends=True)
    if len(lines) > 1 and not lines[-1].endswith(("\n", "\r")):
        lines.pop()
    return [line.rstrip("\r\n") for line in lines[:MAX_LINES]]


def split(lines: Iterable[str], separator: str) -> list[list[str]]:
    """Fields of each line; quoted fields may contain separators and line breaks.

    Examples
    --------
    >>> split(['a,b', '"1,2",3'], ",")
    [['a', 'b'], ['1,2', '3']]
    """
    text = "\n".join(lines)
    # Fields may be long, especially after an unmatched quotation mark.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    return [fields for fields in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if fields]


def _regular_rows(lines: list[str], separator: str) -> list[list[str]]:
    rows = split(lines, separator)
    return [row for row in rows if len(row) == len(rows[0])]


def _can_decode(sample: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True
