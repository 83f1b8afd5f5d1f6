"""Tables for experiments: one pass serves two kinds of exits, and whatever was done is not done again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.transformers import FineTuning, HeadTraining, Plan, PruningTrace, Rows, Training
from riskfront.transformers._exits import ExitHeads, Layout
from riskfront.transformers._experiment_tables import TablePlan, make_tables, rows_of
from riskfront.transformers._pruning import pruning_trace as trace_module
from riskfront.transformers._pruning.network import Network
from tests.support import tiny_transformers as tiny

HOW = TablePlan(
    "tiny",
    "early",
    Plan(
        training=Training(
            FineTuning(early_layers=1.0), heads=HeadTraining(epochs=2, rows=100, token_rows=40), max_length=40
        ),
        rows=Rows(train=120, validation=30, calibration=60),
    ),
    head_shares=(0.0, 0.25),
    token_shares=(0.0, 0.5),
    n_exits=6,
)


def frame() -> pd.DataFrame:
    rows = tiny.make_frame(300, 5)
    return rows.assign(split=np.where(np.arange(300) < 200, "train", np.where(np.arange(300) < 290, "test", "other")))


@pytest.fixture
def cls_network(network: Network) -> Network:
    """The same network with the paper's exits, not trained."""
    layout = replace(Layout.of("cls", pairs=False), first_predictor=0, token_history=False)
    b = network.backbone
    return replace(network, layout=layout, exit_heads=ExitHeads(layout, b.n_layers, b.width, b.n_classes).eval())


def test_a_shared_pass_is_the_pass_that_each_network_makes_alone(
    network: Network, cls_network: Network, data: Any
) -> None:
    alone = PruningTrace(cls_network, *data, progress=False)
    other = PruningTrace(cls_network, *data, progress=False)
    both = PruningTrace(network, *data, progress=False, beside=[other])
    for tau_token, tau_head in ((0.0, 0.0), (0.05, 0.2)):
        both.passes(tau_token, tau_head)
        found, wanted = other.passes(tau_token, tau_head), alone.passes(tau_token, tau_head)
        assert other.examples_run == 0
        np.testing.assert_array_equal(found.tokens, wanted.tokens)
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-5)
    assert not np.allclose(other.passes(0.0, 0.0).probabilities[:, 1], both.passes(0.0, 0.0).probabilities[:, 1])


def test_networks_that_drop_other_tokens_share_no_pass(network: Network, paper_network: Network, data: Any) -> None:
    other = PruningTrace(paper_network, *data, progress=False)
    with pytest.raises(InvalidInputError, match="the same encoder, token predictors and head scores"):
        PruningTrace(network, *data, beside=[other])


def test_tables_are_made_once_and_go_on_where_they_stopped(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    options = {"say": said.append, "progress": False}
    original, calls = PruningTrace._keep, []

    def stopped(self: PruningTrace, *given: Any) -> None:
        original(self, *given)
        calls.append(1)
        if len(calls) == 3:  # in the middle of the second shared pass: one trace has it, the other has not
            raise KeyboardInterrupt

    monkeypatch.setattr(trace_module.PruningTrace, "_keep", stopped)
    with pytest.raises(KeyboardInterrupt):
        make_tables(encoder_folder, frame(), tmp_path / "stopped", HOW, **options)
    monkeypatch.setattr(trace_module.PruningTrace, "_keep", original)
    said.clear()
    made = make_tables(encoder_folder, frame(), tmp_path / "stopped", HOW, **options)
    assert [path.name for path in made] == ["tiny.early.pooled.parquet", "tiny.early.cls.parquet"]
    assert sum(line.endswith("done before") for line in said) == 6  # five steps of training and the other exits
    again = make_tables(encoder_folder, frame(), tmp_path / "stopped", HOW, **options)
    assert again == made
    assert said[-1] == "tiny.early.cls.parquet: done before"
    straight = make_tables(encoder_folder, frame(), tmp_path / "straight", HOW, **options)
    for one, other in zip(made, straight, strict=True):
        found, wanted = rf.LossTable.load(one), rf.LossTable.load(other)
        assert found.n_configs == wanted.n_configs
        for name in found.loss_names:
            np.testing.assert_allclose(found.losses(name), wanted.losses(name), atol=1e-5, rtol=1e-5)
        about = json.loads(one.with_suffix(".json").read_text("utf-8"))
        assert (about["rows"], about["settings"]) == (found.n_examples, found.n_configs)
        full = int(np.flatnonzero((found.configs == 0).all(axis=1))[0])
        assert about["accuracy"] == pytest.approx(1 - found.losses("error")[full].mean(), abs=1e-3)
        assert not found.losses("accuracy_drop")[full].any()
        assert found.losses("relative_cost")[full] == pytest.approx(1.0)


def test_rows_of_other_splits_are_left_out() -> None:
    found = rows_of(frame(), "test")
    assert sorted(found["split"].unique()) == ["test", "train"]
    assert len(found) == 290
    with pytest.raises(InvalidInputError, match="must mark some rows 'dev'"):
        rows_of(frame(), "dev")


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match="each kind once"):
        replace(HOW, exits=("cls", "cls"))
    with pytest.raises(InvalidInputError, match=r"shares of token scores must be from 0 to below 1"):
        TablePlan("news", "paper", token_shares=(0.0, 1.5))
