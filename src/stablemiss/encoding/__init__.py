"""Reading of tables and their encoding as numeric values and a mask. NaN does not occur after encoding."""

from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.table import Table, read_table

__all__ = ["Table", "TableEncoder", "read_table"]
