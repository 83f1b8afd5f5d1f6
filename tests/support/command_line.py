"""The riskfront command inside this process, and a small file for it."""

import contextlib
import importlib.util
import io
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from riskfront._cli import main

LIMITS = ["--limit", "error <= 0.2", "--minimize", "cost"]


def long_frame(seed=0, n=300):
    rng = np.random.default_rng(seed)
    rows = [
        {
            "threshold": t,
            "depth": d,
            "example": i,
            "label": "ab"[i % 2],
            "error": int(rng.random() < 0.02 + 0.1 * t),
            "cost": 1 - t + d / 10,
        }
        for t in (0.1, 0.3, 0.9)
        for d in (1, 2)
        for i in range(n)
    ]
    return pd.DataFrame(rows)


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def riskfront(*arguments):
    """The command in this process; tests/cli/test_cli.py runs it once in a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    missing = re.search(r"riskfront: (\S+) is needed here and is not installed", err.getvalue())
    if missing and importlib.util.find_spec(missing[1]) is None:
        pytest.skip(missing[0])  # `make quick` goes without extras
    return Done(int(stop.value.code), out.getvalue(), err.getvalue())
