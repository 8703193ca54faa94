"""Reads tables and encodes them as numeric values and a mask. Encoded values contain no NaN."""

from stablemiss.encoding.encoded import Encoded
from stablemiss.encoding.encoder import OnOutOfRange, TableEncoder
from stablemiss.encoding.table import Table, read_table

__all__ = ["Encoded", "OnOutOfRange", "Table", "TableEncoder", "read_table"]
