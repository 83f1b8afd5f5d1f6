"""What exits answer is said, and exits that are dead are named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.transformers import Network, PruningTrace
from riskfront.transformers.learning.exit_report import ExitReport, report_exits


def test_the_report_counts_right_answers_at_every_exit(
    network: Network, traced: PruningTrace, data: Any, tmp_path: Path
) -> None:
    found = report_exits(network, *data, batch_size=17)
    answers = traced.passes(0.0, 0.0).probabilities.argmax(axis=2)
    right = (answers == traced.labels[:, None]).mean(axis=0)
    np.testing.assert_allclose([*found.accuracy, found.full], right)
    assert found.majority == np.bincount(traced.labels).max() / 200
    found.save(tmp_path / "exits.json")
    assert ExitReport.load(tmp_path / "exits.json") == found


def test_an_exit_that_answers_always_the_same_is_named(network: Network, data: Any) -> None:
    heads = type(network.exit_heads)(network.layout, 4, 32, 3)
    heads.load_state_dict(network.exit_heads.state_dict())
    with torch.no_grad():
        heads.heads[2][2].weight.zero_()
    found = report_exits(replace(network, exit_heads=heads), *data)
    assert 2 in found.dead
    assert "exits answer no better than the most frequent class" in (found.warning() or "")
    assert "the most frequent class" in str(found)


def test_nothing_is_warned_of_where_all_exits_live() -> None:
    alive = ExitReport(0, (0.7, 0.8), 0.9, 0.5, 1000)
    assert alive.dead == []
    assert alive.warning() is None
    barely = replace(alive, accuracy=(0.51, 0.8))
    assert barely.dead == [0], "within one standard error"
    assert "1 of 2 exits" in (barely.warning() or "")
