"""The summary of repeated trials on the terminal: the table, and what its columns say."""

from __future__ import annotations

import pandas as pd

from riskfront._problems.problem import Problem
from riskfront.statistics._intervals import HELD_OUT_LEVEL

_HEADERS = {
    "certified_something": "found",
    "interval": "95 % interval",
    "held_out_above": "above on held-out",
    "held_out_shown": "shown to violate",
}


def trial_table(summary: pd.DataFrame, problem: Problem) -> tuple[str, pd.DataFrame]:
    """A title and the columns worth showing of what ``experiment.summarize`` returned."""
    trials = int(summary["trials"].iloc[0])
    frame = summary
    if "violated" in summary:
        title = f"Means over {trials} draws of calibration examples; the truth is the whole table"
        ends = zip(summary["violated_low"], summary["violated_high"], strict=True)
        frame = summary.assign(interval=[f"{low:.2g} to {high:.2g}" for low, high in ends])
        verdicts = ["violated", "interval"]
    else:
        title = f"Means over {trials} random splits, measured on held-out examples"
        verdicts = ["held_out_above", "held_out_shown"]
    columns = [*problem.limit_names, *(objective.name for objective in problem.objectives), *verdicts]
    names = list(dict.fromkeys(["method", "p_value", "alpha", *columns, "certified_something"]))
    return title, frame[names].dropna(axis=1, how="all").rename(columns=_HEADERS)


def trial_words(summary: pd.DataFrame, problem: Problem) -> str:
    """What the columns mean, in a line each."""
    found = "found: share of trials that certified a setting (or picked one, without a guarantee); means are over those alone."
    if "violated" in summary:
        violated = (
            "violated: share of all trials whose setting truly breaks a limit: calibration examples are drawn with "
            f"replacement, so the means of the whole table are the true risks. {problem.delta:g} is allowed."
        )
        return f"{found}\n{violated}"
    above = (
        "above on held-out: share of all trials whose setting measures above a limit on the held-out examples. Their "
        f"noise alone puts settings there that keep their limits: do not compare it with {problem.delta:g}."
    )
    shown = (
        "shown to violate: share of all trials in which held-out examples show, by a test at level "
        f"{HELD_OUT_LEVEL:g}, that the setting breaks a limit; for a method that keeps its word, at most "
        f"{problem.delta:g} + {HELD_OUT_LEVEL:g}."
    )
    return f"{found}\n{above}\n{shown}"
