"""Reads tables and encodes them as numeric values and a mask. Encoded values contain no NaN."""

from stablemiss.encoding.encoded import Encoded
from stablemiss.encoding.encoder import OnOutOfRange, TableEncoder
from stablemiss.encoding.report import ColumnSummary, SuspiciousDataWarning
from stablemiss.encoding.table import Table, read_table

__all__ = [
    "ColumnSummary",
    "Encoded",
    "OnOutOfRange",
    "SuspiciousDataWarning",
    "Table",
    "TableEncoder",
    "read_table",
]
