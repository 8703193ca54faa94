"""Reads tables and arrays and encodes them as numeric values and a mask. Encoded values contain no NaN."""

from stablemiss.encoding.arrays import ArrayEncoder, ArrayRows, is_array, read_array
from stablemiss.encoding.encoded import Encoded, OnOutOfRange
from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.inputs import Encoder, encoder_from_state, make_encoder, read_rows, row_shape
from stablemiss.encoding.masking import numeric_columns, observed_cells, take_rows, with_missing
from stablemiss.encoding.report import ColumnSummary, SuspiciousDataWarning
from stablemiss.encoding.table import Table, read_table

__all__ = [
    "ArrayEncoder",
    "ArrayRows",
    "ColumnSummary",
    "Encoded",
    "Encoder",
    "OnOutOfRange",
    "SuspiciousDataWarning",
    "Table",
    "TableEncoder",
    "encoder_from_state",
    "is_array",
    "make_encoder",
    "numeric_columns",
    "observed_cells",
    "read_array",
    "read_rows",
    "read_table",
    "row_shape",
    "take_rows",
    "with_missing",
]
