"""Views of result rows: table, findings, plot, HTML. Rebuilt from the rows alone, without torch.

What a row holds is said in `stablemiss.evaluation.shift`; nothing here computes a score.
"""

from stablemiss.report.html import render_report, write_report
from stablemiss.report.summary import summarise
from stablemiss.report.tables import gap_table
from stablemiss.report.terminal import print_table, terminal_table

__all__ = ["gap_table", "print_table", "render_report", "summarise", "terminal_table", "write_report"]
