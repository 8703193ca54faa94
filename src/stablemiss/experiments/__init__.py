"""Experiments as frozen data, and what runs them."""

from stablemiss.experiments.demo import run_demo

__all__ = ["run_demo"]
