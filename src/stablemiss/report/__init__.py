"""Views of records: terminal tables, Markdown, plots, HTML pages. None of them imports torch."""
