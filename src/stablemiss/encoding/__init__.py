"""Where NaN ends: any user's table becomes (values, mask)."""

from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.table import Table, read_table

__all__ = ["Table", "TableEncoder", "read_table"]
