"""Calibrating again and again: ``riskfront.experiment.run``. The public door to ``riskfront.experiment``."""

from riskfront.experiment._repeated_splits import run, summarize

__all__ = ["run", "summarize"]
