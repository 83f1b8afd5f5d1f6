"""What exits answer is said, and exits that are dead are named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.transformers import PruningTrace
from riskfront.transformers._learning.reports import ExitReport, probe_accuracy, report_exits
from riskfront.transformers._pruning.network import Network


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


def test_an_exit_that_learnt_less_than_a_linear_classifier_is_named() -> None:
    """As the exits that read unscaled states did: a little better than the most frequent class, far below what is there."""
    found = ExitReport(0, (0.62, 0.8), 0.9, 0.5, 1000, probe=(0.75, 0.79))
    assert found.dead == []
    assert found.behind == [0]
    assert "1 of 2 exits answer worse than a linear classifier" in str(found)
    assert "; a linear classifier there .750 .790; the full model" in str(found)
    assert "worse" not in str(replace(found, probe=(0.63, 0.79))), "within two standard errors"


def test_a_probe_learns_what_a_linear_classifier_can() -> None:
    """Of three depths the first holds nothing, the second the class in a thousandth of its size, the third in the open."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=900)
    signal = np.eye(3)[labels]
    noise = rng.standard_normal((900, 3, 3))
    seen = np.stack([noise[:, 0], 5 + 1e-3 * (signal + 0.1 * noise[:, 1]), signal + 0.1 * noise[:, 2]], axis=1)
    x, y = torch.tensor(seen, dtype=torch.float32), torch.tensor(labels)
    found = probe_accuracy((x[:600], y[:600]), (x[600:], y[600:]))
    assert found[0] < 0.45
    assert min(found[1:]) > 0.98


def test_nothing_is_warned_of_where_all_exits_live() -> None:
    alive = ExitReport(0, (0.7, 0.8), 0.9, 0.5, 1000)
    assert alive.dead == []
    assert alive.warning() is None
    barely = replace(alive, accuracy=(0.51, 0.8))
    assert barely.dead == [0], "within one standard error"
    assert "1 of 2 exits" in (barely.warning() or "")
