"""Experiments as frozen data, what runs them, and what keeps and compares their results."""
