"""Calibrating again and again: ``riskfront.experiment.run``. The public door to ``riskfront.experiments``."""

from riskfront.experiments.repeated_splits import run, summarize

__all__ = ["run", "summarize"]
