"""Calibrating again and again: ``riskfront.experiment.run``."""

from riskfront.experiment._repeated_splits import run, summarize

__all__ = ["run", "summarize"]
