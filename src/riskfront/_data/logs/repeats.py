"""Repeated answers to one example: their mean is one outcome, because they depend on each other.

A failed call beside others is one of the answers: it has a score, the worst, and agrees with none of them. A mean of which a
part is unknown is unknown: calibration counts it as the worst there can be.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from riskfront._data.logs.responses import agreement


def averaged(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and example, of one row an answer."""
    frame = frame.assign(_cell=frame.groupby(["_setting", "example"], sort=False).ngroup())
    grouped = frame.groupby("_cell")
    counts = grouped.size()
    about = ["_setting", "example", "task", *(name for name in frame if str(name).startswith("about "))]
    numbers = [name for name in frame if name not in about and not str(name).startswith("_")]
    known = grouped[numbers].count()
    found = grouped[about].first().join(grouped[numbers].mean().where(known.eq(counts, axis=0)))
    if frame["_failed"].any():
        found["failed"] = grouped["_failed"].mean()
    repeated = counts > 1
    if repeated.any() or not (known > 0).any(axis=1).all():  # otherwise each row of numbers is one answer
        found["samples"] = counts.astype(np.float64)
    if repeated.any():
        warnings.warn(
            f"{int(repeated.sum()):,} of {len(counts):,} outcomes are means over several answers to one example (epochs or "
            f"repeats; {len(frame):,} answers in all): answers to one example depend on each other.",
            stacklevel=4,
        )
    if counts.median() > 1:  # a few examples that come twice are no repeated sampling
        given = frame[~frame["_failed"]]
        if not given.empty and not given["_answer"].isna().any():
            # what a grader took out of a response cannot be told from a response when the policy runs
            name = "agreement" if (given["_text"] == given["_answer"]).all() else "answer_agreement"
            found[name] = agreement(given["_cell"], given["_answer"], counts)
    return found.reset_index(drop=True)
