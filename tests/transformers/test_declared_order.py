"""Exits only: thresholds are tested from the full model on, on all calibration texts, and simple classifiers stand beside."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront.transformers import AdaptiveClassifier, Grid, Plan, Rows
from riskfront.transformers._accelerate import certify
from riskfront.transformers._certifying import certify_in_order, has_known_order
from riskfront.transformers._data.known_texts import Learnt
from riskfront.transformers._data.texts import split_texts
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.thresholds import Thresholds
from riskfront.transformers._recomputing import recompute
from riskfront.transformers._speed_up import Alternative, better_than_certified, load_alternatives
from tests.support import tiny_transformers as tiny

EXITS = Thresholds((0.0,), (0.0,), (0.0, 0.1, 0.5))
DROP = rf.Problem(["accuracy_drop <= 0.05", "accuracy_drop_clipped <= 0.2 per label"], minimize="flops")


def test_where_the_order_is_known() -> None:
    assert has_known_order("pareto-testing", "grid", EXITS, DROP)
    for change in (
        {"tau_head": (0.0, 0.1)},
        {"tau_token": (0.0, 0.1)},
        {"abstain": (0.0, 0.9)},
        {"precision": ("int8",)},
        {"depth": (4, 2)},
        {"tau_layer": (0.0,)},
    ):
        assert not has_known_order("pareto-testing", "grid", dataclasses.replace(EXITS, **change), DROP)
    for limit in ("error <= 0.1", "accuracy_drop <= 0.1 given answered", "relative_cost <= 0.5"):
        assert not has_known_order("pareto-testing", "grid", EXITS, rf.Problem([limit], minimize="flops"))
    assert not has_known_order("split-fst", "grid", EXITS, DROP)
    assert not has_known_order("pareto-testing", "random", EXITS, DROP)


def test_all_calibration_texts_test(network: Network, tokenizer: Any, tmp_path: Path) -> None:
    parts = split_texts(tiny.make_frame(500, 90), Rows(validation=40))
    trained = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40, learnt=Learnt())
    plan = Plan(rows=Rows(validation=40), grid=Grid(head=1, token=1, layer=12))
    found = certify(
        trained, parts, rf.Problem(["accuracy_drop <= 0.1"], minimize="flops"), tmp_path, plan, progress=False
    )
    certificate = found.certificate
    assert certificate is not None
    assert certificate.method == "ordered-knob"
    assert (certificate.n_opt, certificate.n_test) == (0, len(parts.calibration))
    values = certificate.tested["tau_layer"].tolist()
    assert values == sorted(values)
    assert values[0] == 0, "from the full model on"
    again = recompute(certificate, tmp_path)
    assert again.path.equals(certificate.path)
    assert again.data_sha256 == certificate.data_sha256
    rows = load_alternatives(tmp_path)
    assert [row.name for row in rows][:3] == ["certified", "full model", "full model in int8"]
    assert {"first layer", "first 2 layers", "TF-IDF and logistic regression"} <= {row.name for row in rows}
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    right = loaded.predict(list(parts.calibration.first)) == np.array(tiny.SIGNALS)[parts.calibration.labels]
    assert rows[0].accuracy == pytest.approx(right.mean())
    assert all(row.alone > 0 and row.together > 0 for row in rows)
    assert json.loads((tmp_path / "gain.json").read_text())["seconds_alone"] > 0


def test_what_beats_the_certified_setting_is_named() -> None:
    own = Alternative("certified", 0.8, 100, 2.0, 1.0, certified=True)
    words = Alternative("words", 0.81, 100, 0.5, 0.1)
    rows = [own, words, Alternative("slow", 0.9, 100, 9.0, 9.0), Alternative("poor", 0.7, 100, 0.1, 0.1)]
    assert better_than_certified(rows) == ["words"]
    assert better_than_certified([words]) == []


class Population:
    """A trace whose true drop is 0 at the first threshold, within the limit at some, and a hair above it from then on."""

    bounds = {"accuracy_drop": (-1.0, 1.0)}  # noqa: RUF012
    groups = {}  # noqa: RUF012

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.examples = np.arange(n)
        self._uniform, self._noise = rng.random(n), rng.random(n)

    def losses(self, config: Any, examples: Any) -> dict[str, Any]:
        at = int(config["tau_layer"])
        drop = 0.0 if at == 0 else 0.04 if at < 3 else 0.1001
        lost, won = self._uniform < drop + 0.05, self._uniform > 0.95
        values = np.where(lost, 1.0, np.where(won, -1.0, 0.0)) if at else np.zeros(len(self.examples))
        return {"accuracy_drop": values, "flops": 10.0 - at + self._noise}


def test_a_hard_null_through_the_declared_order() -> None:
    problem = rf.Problem(["accuracy_drop <= 0.1"], minimize="flops", delta=0.1)
    configs = [{"tau_layer": float(k)} for k in range(8)]
    wrong = right = 0
    for seed in range(100):
        found = certify_in_order(Population(400, seed), configs, problem, 0)  # type: ignore[arg-type]
        wrong += bool(found) and found.config["tau_layer"] >= 3
        right += bool(found) and found.config["tau_layer"] >= 1
    assert wrong <= 100 * 0.1 + 3 * np.sqrt(100 * 0.09)
    assert right >= 60, "what holds with room is found"
