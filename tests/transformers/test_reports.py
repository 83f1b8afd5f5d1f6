"""What exits answer is said, and dead ones are named; what scores of tokens and heads are worth stands beside chance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.transformers import PruningTrace
from riskfront.transformers._backbones import Packed
from riskfront.transformers._learning.reports import (
    ExitReport,
    PruningReport,
    as_many_at_random,
    kept_at_random,
    probe_accuracy,
    report_exits,
    report_pruning,
)
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.thresholds import scores_and_entropies


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


def test_by_score_is_what_a_trace_of_that_threshold_finds(
    network: Network, traced: PruningTrace, data: Any, tmp_path: Path
) -> None:
    found = report_pruning(network, *data, batch_size=23)
    threshold = float(np.quantile(scores_and_entropies(network, data[0].take(np.arange(128)))[0], 0.5))
    tau_head = float(np.quantile(network.head_scores, 0.25))
    passes = {
        "tokens": traced.passes(threshold, 0.0),
        "heads": traced.passes(0.0, tau_head),
        "full": traced.passes(0.0, 0.0),
    }
    for name, made in passes.items():
        right = (made.probabilities[:, -1].argmax(axis=1) == traced.labels).mean()
        np.testing.assert_allclose(getattr(found, name), right)
    assert 0 < found.tokens_left < 1
    found.save(tmp_path / "pruning.json")
    assert PruningReport.load(tmp_path / "pruning.json") == found


def test_scores_that_are_learnt_beat_chance_and_reversed_ones_are_named(network: Network, data: Any) -> None:
    """The texts of the tests have one word that tells the class: chance drops it, scores keep it."""
    found = report_pruning(network, *data)
    assert found.tokens > found.tokens_at_random + 0.05
    assert found.warning() is None
    assert f"at random {found.tokens_at_random:.3f}".replace("0.", ".") in str(found)

    reversed_ones = type(network.predictors)(network.layout, 4, 32)
    reversed_ones.load_state_dict(network.predictors.state_dict())
    with torch.no_grad():
        for predictor in reversed_ones.predictors:
            predictor[-1].weight.neg_()
            predictor[-1].bias.neg_()
    worse = report_pruning(replace(network, predictors=reversed_ones), *data)
    assert worse.tokens < worse.tokens_at_random
    assert "dropping tokens at random hurts less than by their scores" in (worse.warning() or "")


def test_as_many_stay_at_random_and_the_first_always() -> None:
    batch = Packed(torch.zeros(9, 2), torch.tensor([4, 1, 4]))
    wanted = torch.tensor([2, 1, 4])
    drawn = torch.Generator().manual_seed(0)
    kept = torch.stack([as_many_at_random(batch, wanted, drawn) for _ in range(300)])
    assert kept[:, [0, 4, 5]].all()
    for start, length, n in ((0, 4, 2), (4, 1, 1), (5, 4, 4)):
        assert (kept[:, start : start + length].sum(dim=1) == n).all()
    assert (kept[:, 1:4].double().mean(dim=0) - 1 / 3).abs().max() < 0.1, "each of the three as often"


def test_a_share_of_heads_is_left_out_at_random() -> None:
    kept = kept_at_random(np.zeros((4, 12)), 0.25, seed=1)
    assert kept.shape == (4, 12)
    assert kept.sum() == 36
    assert (kept != kept_at_random(np.zeros((4, 12)), 0.25, seed=2)).any()
