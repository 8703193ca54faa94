"""Views of records: terminal tables, Markdown, plots, HTML pages. They need no torch."""
