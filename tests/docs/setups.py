"""What a page takes for granted: the files that its reader has, and the names. Page -> what makes them in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def bert(folder: Path) -> dict[str, Any]:
    """An encoder folder and labelled texts, small enough for seconds."""
    from tests.support import tiny_transformers as tiny

    tiny.save_encoder(folder / "bert-folder")
    frame = tiny.make_frame(1400, 1)
    frame["split"] = ["train"] * 900 + ["test"] * 500
    frame.to_parquet(folder / "texts.parquet")
    tiny.make_frame(400, 2).to_parquet(folder / "new.parquet")
    return {}


def readme(folder: Path) -> dict[str, Any]:
    """What its five users have: a file, a fitted model, an encoder, logs, a method."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    import riskfront as rf

    rng = np.random.default_rng(0)
    levels = np.linspace(0.02, 0.2, 10)
    error = rng.random((10, 1500)) < levels[:, None]
    cost = np.repeat(1 - levels[:, None], 1500, axis=1)
    label = rng.integers(0, 3, 1500)
    configs = [{"level": round(float(level), 2)} for level in levels]
    rows = [
        pd.DataFrame({**config, "example": np.arange(1500), "label": label, "error": e.astype(int), "cost": c})
        for config, e, c in zip(configs, error, cost, strict=True)
    ]
    pd.concat(rows).to_parquet(folder / "losses.parquet")
    bert(folder)
    _promptfoo(folder / "results.json", rng)
    x, y = load_digits(return_X_y=True)
    return {
        "model": LogisticRegression(max_iter=300).fit(x[:500], y[:500]),
        "x_calibration": x[500:1400],
        "y_calibration": y[500:1400],
        "x_new": x[1400:],
        "table": rf.LossTable(configs, {"error": error, "cost": cost}, {"label": label}),
        "MyMethod": rf.HolmTesting,
    }


def _promptfoo(path: Path, rng: np.random.Generator) -> None:
    """Two models on 600 prompts, as promptfoo writes them down."""
    hard = rng.random(600)
    results = [
        {
            "provider": {"id": name, "label": ""},
            "promptIdx": 0,
            "prompt": {"raw": f"question {example}", "label": "question"},
            "testIdx": example,
            "score": float(rng.random() < good - 0.4 * hard[example]),
            "cost": price * (1 + hard[example]),
            "latencyMs": 100,
            "response": {"output": "word " * int(20 + 60 * hard[example])},  # a longer answer to a harder question
        }
        for name, good, price in (("small", 0.95, 1.0), ("large", 1.2, 9.0))
        for example in range(600)
    ]
    path.write_text(json.dumps({"results": {"version": 3, "results": results}}), encoding="utf-8")


def llm_logs(folder: Path) -> dict[str, Any]:
    """Two servers that stand for the providers of the page, and free ports in place of those that it names."""
    import os
    import threading

    import uvicorn

    from tests.cascades.serving.recorded_server import application
    from tests.support.processes import free_port, wait_until

    ports = {"8400": free_port()}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    for name, port in (("medium", "8461"), ("large", "8462")):
        os.environ[f"{name.upper()}_KEY"] = "of-the-page"
        sure, unsure = ({"logprobs": [value], "usage": usage, "text": text} for value, text in _SAID[name])
        answers = {"An easy one?": sure, "A hard one?": unsure}
        config = uvicorn.Config(
            application({"key": "of-the-page", "answers": answers}), port=0, log_level="error", lifespan="off"
        )
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, daemon=True).start()
        wait_until(lambda server=server: server.started, f"the server of {name} has started")
        ports[port] = server.servers[0].sockets[0].getsockname()[1]
    return {"ports": ports}


#: model -> log-probability and text of its answers to an easy and to a hard question
_SAID = {"medium": [(-0.01, "medium is sure"), (-4.0, "medium guesses")], "large": [(0.0, "large knows")] * 2}


def logs_of(tool: str, place: str) -> Callable[[Path], dict[str, Any]]:
    """The logs that a page begins with, as its tool wrote them."""

    def copy(folder: Path) -> dict[str, Any]:
        written = Path(__file__).parents[1] / "data" / "logs" / "written_by_tools" / tool
        if place.endswith(".json"):
            shutil.copy(next(written.glob("*.json")), folder / place)
        else:
            shutil.copytree(written, folder / place)
        return {}

    return copy


def home(folder: Path) -> dict[str, Any]:
    """A fitted model and rows that it has not seen."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression

    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(max_iter=10_000).fit(X[:200, :4], y[:200])
    return {"model": model, "X": X[200:, :4], "y": y[200:]}


SETUPS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "docs/start/bert.md": bert,
    "docs/start/llm-logs.md": llm_logs,
    "docs/start/litellm.md": logs_of("litellm_183", "spend_logs.json"),
    "docs/start/inspect.md": logs_of("inspect_ai", "logs"),
    "docs/start/promptfoo.md": logs_of("promptfoo", "results.json"),
    "docs/start/lm-eval.md": logs_of("lm_eval", "results"),
    "docs/index.md": home,
    "README.md": readme,
}
