"""riskfront beside scikit-learn's TunedThresholdClassifierCV: what each picks, and how often that truly breaks the limit.

    python -m benchmarks.compare_tuned_threshold --out benchmarks/results/compare_tuned_threshold

TunedThresholdClassifierCV promises no limit: it maximises a score on the examples at hand. A limit is put into it as a score
that counts only where the limit is measured to hold, which is what people do with it. It is used in both of its ways: on the
same fitted model and the same calibration examples as riskfront, and as it comes, with training and calibration examples
together for five-fold cross-validation and a model fitted again on all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

import riskfront as rf
from benchmarks import compare_tools as ask
from benchmarks.compare_mapie import interval
from benchmarks.compare_tasks import precision_task, recall_task, training_examples, two_classes

#: a threshold and the model it belongs to; None without a certified one
Picked = tuple[float, Any] | None
Tool = Callable[[Any, np.ndarray, np.ndarray], Picked]


def precision_and_recall(y: np.ndarray, said: np.ndarray) -> tuple[float, float]:
    """Counted here, in microseconds: scikit-learn's own metrics would make it look slow."""
    hits = np.count_nonzero(said & y)
    return hits / max(np.count_nonzero(said), 1), hits / max(np.count_nonzero(y), 1)


def recall_if_precise(y: np.ndarray, said: np.ndarray) -> float:
    precision, recall = precision_and_recall(y, said)
    return recall if precision >= 0.9 else 0.0


def precision_if_complete(y: np.ndarray, said: np.ndarray) -> float:
    precision, recall = precision_and_recall(y, said)
    return precision if recall >= 0.8 else 0.0


def tuned(model: Any, X: np.ndarray, y: np.ndarray, score: Callable[..., float]) -> Picked:
    """On a fitted model and examples that it was not trained on."""
    found = TunedThresholdClassifierCV(model, scoring=make_scorer(score), cv="prefit", refit=False).fit(X, y)
    return float(found.best_threshold_), model


def tuned_as_it_comes(model: Any, X: np.ndarray, y: np.ndarray, score: Callable[..., float]) -> Picked:
    """By cross-validation on all examples there are, with a model fitted on all of them in the end."""
    X_train, y_train = training_examples()
    found = TunedThresholdClassifierCV(LogisticRegression(), scoring=make_scorer(score))
    found.fit(np.concatenate([X_train, X]), np.concatenate([y_train, y]))
    return float(found.best_threshold_), found.estimator_


def certified(model: Any, X: np.ndarray, y: np.ndarray, tool: ask.Tool) -> Picked:
    setting = tool(model, X, y)
    return None if setting is None else (setting[0], model)


TASKS: Mapping[str, tuple[Any, Callable[..., float], Mapping[str, ask.Tool]]] = {
    "precision": (
        precision_task,
        recall_if_precise,
        {
            "the paper's procedure": partial(
                ask.paper_threshold, limit="hit >= 0.9 given said", objective=rf.Objective("hit", given="positive")
            ),
            "riskfront": ask.our_precision,
            "riskfront, planned": partial(ask.our_precision, method="pareto-testing"),
        },
    ),
    "recall": (
        recall_task,
        precision_if_complete,
        {
            "the paper's procedure": partial(
                ask.paper_threshold, limit="hit >= 0.8 given positive", objective=rf.Objective("hit", given="said")
            ),
            "riskfront": ask.our_recall,
            "riskfront, planned": partial(ask.our_recall, method="pareto-testing"),
        },
    ),
}


def truth(picked: tuple[float, Any]) -> tuple[float, float]:
    """Precision and recall on the population."""
    threshold, model = picked
    fitted, X, y, score = two_classes()
    said = (score if model is fitted else model.predict_proba(X)[:, 1]) >= threshold
    return precision_and_recall(y == 1, said)


def compared(name: str, trials: int) -> pd.DataFrame:
    make, score, ours = TASKS[name]
    task, least = make(), {"precision": 0.9, "recall": 0.8}[name]
    tools: dict[str, Tool] = {
        "TunedThresholdClassifierCV, cv='prefit'": partial(tuned, score=score),
        "TunedThresholdClassifierCV, as it comes": partial(tuned_as_it_comes, score=score),
        **{tool: partial(certified, tool=of) for tool, of in ours.items()},
    }
    rows = []
    for tool, pick in tools.items():
        limited, objective, thresholds, seconds = [], [], [], 0.0
        for trial in range(trials):
            X, y = task.draw(np.random.default_rng([0, trial]))
            started = time.process_time()
            picked = ask.quietly(pick, task.model, X, y)
            seconds += (time.process_time() - started) / trials
            found = None if picked is None else truth(picked)
            at = found if name == "precision" or found is None else found[::-1]
            limited += [] if at is None else [at[0]]
            thresholds += [] if picked is None else [picked[0]]
            objective.append(task.nothing if at is None else at[1])
        rows.append(
            {
                "task": name,
                "tool": tool,
                "threshold": np.mean(thresholds),
                "objective": np.mean(objective),
                "lowest 5 %": np.quantile(limited, 0.05),
                "violated": sum(value < least for value in limited) / trials,
                "found": len(limited) / trials,
                "seconds": seconds,
                "trials": trials,
            }
        )
    return pd.DataFrame(rows).assign(best=task.best())


def markdown(frame: pd.DataFrame, name: str) -> str:
    task = TASKS[name][0]()
    lines = [
        f"### {task.wanted}, {task.objective} as high as possible",
        "",
        f"{task.calibration:,} calibration examples, {int(frame['trials'].iloc[0])} draws, delta = .1 (riskfront, the paper).",
        f"The best threshold that truly holds: {task.objective} {frame['best'].iloc[0]:.3g}.",
        "",
        f"| | mean threshold | {task.objective} | lowest 5 % of {name} | truly broken | 95 % interval | found | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in frame.to_dict("records"):
        low, high = interval(row["violated"], row["trials"])
        lines.append(
            f"| {row['tool']} | {row['threshold']:.3f} | {row['objective']:.3f} | {row['lowest 5 %']:.3f} "
            f"| {row['violated']:.3f} | {low:.3f} to {high:.3f} | {row['found']:.3f} | {row['seconds']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, help="where to write .md and .csv, without the ending")
    options = parser.parse_args()
    started, texts, frames = time.process_time(), [], []
    for name in TASKS:
        frames.append(compared(name, options.trials))
        texts.append(markdown(frames[-1], name))
        print(texts[-1], flush=True)
    if options.out:
        about = (
            f"Made by `python -m benchmarks.compare_tuned_threshold` with scikit-learn {sklearn.__version__}, "
            f"riskfront {rf.__version__}, in {time.process_time() - started:.0f} seconds of one core.\n\n"
        )
        options.out.with_suffix(".md").write_text(about + "\n".join(texts), encoding="utf-8")
        pd.concat(frames).round(5).to_csv(options.out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
