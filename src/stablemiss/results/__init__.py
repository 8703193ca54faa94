"""Results: one record per run, one store for records, and where a result comes from."""

from stablemiss.results.record import Record, Score
from stablemiss.results.store import Store

__all__ = ["Record", "Score", "Store"]
