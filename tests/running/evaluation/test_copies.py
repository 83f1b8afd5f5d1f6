"""Copies of examples that evaluate, tune and fit leave out are part of the account, and verify recomputes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf

X = np.random.default_rng(0).random((300, 2))
TWICE = np.concatenate([X, X[:120]])
CONFIGS = [{"level": 0.02}, {"level": 0.05}, {"level": 0.1}]
PROBLEM = rf.Problem("error <= 0.2", minimize="cost")
REASON = "copies of other examples (repeats='keep-one')"


def losses(config: dict[str, Any], examples: np.ndarray) -> dict[str, np.ndarray]:
    return {"error": examples[:, 0] < config["level"], "cost": examples[:, 1] * (1 - config["level"])}


def test_evaluate_refuses_copies_by_the_examples_themselves(tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInputError, match="have exactly the content of another"):
        rf.evaluate(losses, TWICE, CONFIGS)
    assert rf.evaluate(losses, X, CONFIGS).n_examples == 300
    with pytest.raises(rf.InvalidInputError, match="repeats must be one of"):
        rf.evaluate(losses, X, CONFIGS, repeats="some")  # type: ignore[arg-type]


@pytest.mark.parametrize("kept_in", ["memory", "store", "file"])
def test_evaluate_counts_what_it_leaves_out(kept_in: str, tmp_path: Path) -> None:
    store = None if kept_in == "memory" else tmp_path / "run.zarr"
    data: Any = rf.evaluate(losses, TWICE, CONFIGS, store=store, repeats="keep-one")
    assert data.n_examples == 300
    if kept_in == "file":
        data.save(tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    certificate = rf.calibrate(store if kept_in == "store" else data, PROBLEM)
    assert certificate.intake.left_out == {REASON: 3 * 120}
    assert (certificate.intake.read, certificate.intake.used) == (3 * 420, 3 * 300)
    assert rf.verify(certificate, store if kept_in == "store" else data) == []
    if kept_in != "file":
        assert any("120 of 420 examples repeat others" in note for note in certificate.notes)


def test_tune_counts_what_it_leaves_out(tmp_path: Path) -> None:
    space = rf.Space(level=rf.Choice([0.02, 0.05, 0.1]))
    made = rf.tune(
        losses, TWICE, space, PROBLEM, search="grid", repeats="keep-one", store=tmp_path / "run", progress=False
    )
    again = rf.tune(losses, TWICE, space, PROBLEM, search="grid", repeats="keep-one", progress=False)
    assert made.intake == again.intake
    intake, tested = made.intake, len(made.tested)
    assert intake.read == intake.used + intake.left_out[REASON]
    assert intake.used == 3 * made.n_opt + tested * made.n_test
    assert 120 * min(3, tested) <= intake.left_out[REASON] <= 120 * max(3, tested)
    assert rf.verify(made, tmp_path / "run") == []


def test_fit_counts_what_it_leaves_out() -> None:
    model = rf.RiskControlledEstimator(
        object(),
        configs=CONFIGS,
        predict_with=lambda model, config, X: X[:, 0] < config["level"],
        losses=lambda y, wrong, config: {"error": wrong, "cost": np.full(len(wrong), 1 - config["level"])},
        limits=PROBLEM.limits,
        minimize="cost",
        repeats="keep-one",
        random_state=0,
    )
    y = np.zeros(len(TWICE))
    certificate = model.fit(TWICE, y).certificate_
    assert certificate.intake.left_out == {REASON: 3 * 120}
    assert certificate.intake.read == 3 * 420
    assert rf.verify(certificate, model.loss_table(TWICE, y)) == []


def test_examples_that_cannot_be_read_are_evaluated_all_the_same() -> None:
    """Nothing can be said of copies among generators; losses decide then."""
    examples = [(k for k in range(3)) for _ in range(20)]
    table = rf.evaluate(lambda config, examples: {"error": [0] * 20}, examples, [{"level": 1}])
    assert table.n_examples == 20
