"""A router between language models that decides by the prompt alone, before any model is called.

    python examples/llm_router.py                                    # small generated logs
    python examples/llm_router.py picture.png runs.parquet LARGE     # runs of your own, and the reference among them
    python examples/llm_router.py picture.png LOGS LARGE routerbench # logs of a tool that `riskfront import` knows

Which prompts may go to a cheaper model is learnt from what is known of a prompt, on examples that are set aside; the
threshold is certified: at most 4 points of score may be lost against the reference.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import riskfront as rf

mpl.use("Agg")
import matplotlib.pyplot as plt


def generated(folder: Path, n: int = 4000) -> Path:
    """Three models on prompts of four tasks; hard tasks and long prompts need the large one."""
    rng = np.random.default_rng(4)
    task, length = rng.integers(4, size=n), rng.gamma(2.0, 150.0, size=n).round()
    hard = np.clip(0.15 + 0.2 * task + length / 3000 + 0.1 * rng.standard_normal(n), 0, 1)
    parts = []
    for model, ability, cost in (("small", 1.05, 0.0002), ("medium", 1.25, 0.001), ("large", 1.5, 0.01)):
        right = rng.random(n) < np.clip(ability - hard, 0.02, 0.98)
        names = np.array(["facts", "summaries", "code", "proofs"])[task]
        columns = {"model": model, "example": np.arange(n), "task": names, "length": length}
        parts.append(pd.DataFrame(columns | {"score": right.astype(float), "cost": cost * length / 300}))
    pd.concat(parts).to_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


def main(
    picture: Path = Path("llm_router.png"), runs: Path | None = None, reference: str = "large", tool: str | None = None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        logged = rf.read_runs(generated(Path(folder)) if runs is None else runs, tool)
    known = [str(name) for name in logged.examples if name != "example" and logged.examples[name].nunique() > 1]
    known = [name for name in known if name in ("task", "length", "prompt_chars", "prompt_tokens")]
    router = rf.Router(logged, confidence=rf.LearntConfidence(known))
    problem = rf.Problem(["score drop <= 0.04"], minimize="cost", reference=reference)
    certificate = rf.calibrate(router.table(), problem, method=router.method)
    print(certificate.verdict())
    costs = dict(zip(logged.names, logged.value("cost").mean(axis=1), strict=True))
    if not certificate:
        return {"certified": False}
    policy = router.policy(certificate)
    found = {
        "certified": True,
        "models": certificate.config["models"],
        "cost of the reference": float(costs[reference]),
        "cost of the router": float(certificate.chosen["cost"].iloc[0]),
    }
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, str | bool) else f'{value:.3g}'}")
    print("prompts go to:", ", ".join(f"{m} {s:.0%}" for m, s in zip(policy.models, policy.shares, strict=True)))
    axes = rf.plots.plot_tradeoff(certificate)
    axes.figure.set_size_inches(5.5, 3.6)
    axes.figure.savefig(picture, dpi=90, bbox_inches="tight")
    plt.close(axes.figure)
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]), *sys.argv[3:])
