"""The walks of CONTRIBUTING.md are the order in which real calls enter the files, and a call passes few of them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from tests.support.hops import in_this_order, trace
from tests.support.runs import simulated_runs

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROBLEM = rf.Problem(["error <= 0.12", "error <= 0.4 per label"], minimize=["cost"])


def walk(title: str) -> list[str]:
    """The files that a walk names, in its order."""
    steps = TEXT.split(f"**{title}**")[1].split("\n\n")[1]
    return re.findall(r"^\d+\. `src/riskfront/([^`]+)`", steps, re.MULTILINE)


def check(title: str, call: Callable[[], object]) -> list[tuple[str, str]]:
    """What the call passed, if it passes the files of the walk in their order."""
    call()  # what is loaded when it is first used has been loaded
    passed, named = trace(call), walk(title)
    entered = [file for file, _ in passed]
    assert len(named) >= 5
    assert [file for file in named if file not in entered] == []
    assert in_this_order(named, entered)
    return passed


@pytest.fixture
def losses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    error = (rng.random((30, 600)) < np.linspace(0.02, 0.3, 30)[:, None]).astype(int)
    return error, np.repeat(np.linspace(1, 0.1, 30)[:, None], 600, axis=1), rng.integers(0, 3, 600)


def test_a_file_becomes_a_certificate(losses: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    error, cost, label = losses
    settings, examples = np.indices(error.shape)
    columns = {"t": settings, "example": examples, "label": label[examples], "error": error, "cost": cost}
    pd.DataFrame({name: values.ravel() for name, values in columns.items()}).to_parquet(tmp_path / "losses.parquet")
    check("A file becomes a certificate", lambda: rf.calibrate(tmp_path / "losses.parquet", PROBLEM))


def test_calibrate_passes_few_files_and_functions(losses: tuple[np.ndarray, ...]) -> None:
    error, cost, label = losses
    table = rf.LossTable([{"t": i} for i in range(30)], {"error": error, "cost": cost}, groups={"label": label})
    rf.calibrate(table, PROBLEM)
    passed = set(trace(lambda: rf.calibrate(table, PROBLEM)))
    assert len({file for file, _ in passed}) <= 45
    assert len(passed) <= 280


def test_a_model_becomes_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    examples = np.random.default_rng(0).random(800)

    def run(config: dict[str, float], x: np.ndarray) -> dict[str, np.ndarray]:
        return {"error": (x < config["t"] * 0.3).astype(int), "cost": np.full(len(x), 1 - config["t"])}

    space, problem = rf.Space(t=rf.Float(0.01, 1.0)), rf.Problem(["error <= 0.1"], ["cost"])
    check("A model becomes a certificate", lambda: rf.tune(run, examples, space, problem, budget=12, seed=0))
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_logs_become_a_policy(tmp_path: Path) -> None:
    def call() -> None:
        cascade = rf.Cascade(simulated_runs(n=1500), thresholds=5)
        certificate = rf.calibrate(cascade.table(), rf.Problem(["score >= 0.7"], minimize="cost"))
        cascade.policy(certificate).save(tmp_path / "policy.json")

    check("Logs become a policy", call)


@pytest.mark.filterwarnings("ignore:.* exits answer")  # the model is a toy
def test_a_bert_folder_becomes_an_accelerated_folder(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from riskfront.transformers import FineTuning, Grid, HeadTraining, Plan, Rows, Training, accelerate
    from tests.support import tiny_transformers as tiny

    encoder, frame = tiny.save_encoder(tmp_path / "encoder"), tiny.make_frame(900, 22)
    training = Training(FineTuning(epochs=1), heads=HeadTraining(epochs=1), max_length=32)
    problem = rf.Problem([rf.Limit("accuracy_drop", at_most=0.1)], minimize="relative_cost")
    places = iter(tmp_path / name for name in ("first", "second"))

    def call() -> None:
        accelerate(
            encoder, frame, problem, next(places), Plan(training, Rows(validation=50), Grid(2, 2, 3)), progress=False
        )

    passed = check("A BERT folder becomes an accelerated folder", call)
    assert len({file for file, _ in passed}) <= 85
