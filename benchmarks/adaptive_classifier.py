"""A simulated 12-layer adaptive classifier whose true risks and costs are known exactly.

It imitates the adaptive Transformer of the paper (section 6, "Adaptive multi-dimensional pruning"): attention heads,
tokens and layers are pruned by three thresholds, 18 x 20 x 18 = 6,480 settings. No text and no network is involved;
what is imitated is the table of losses: settings x examples, with the dependence that real tables have.

The truth is exact because the world is a finite population. Draw examples from it with replacement: they are
i.i.d., and the true risk of every setting is its population mean, an integer divided by an integer for 0/1 losses.
The thresholds, the head scores and the constants belong to the model and are fixed; the seed draws the population.

How an example behaves (all of it fixed per example, shared by all settings, so that settings are dependent):

- a label (classes .4/.3/.2/.1, the rare ones harder), a length, a difficulty, and from them the margin of the full
  model for the true class: positive is correct, about 92 % are;
- at an early layer the margin is a fraction of the final one plus noise that vanishes at the last layer;
- pruning heads takes away importance mass, pruning tokens takes away context: each lowers the margin of the true class
  by an amount of the example's own, plus a random walk along the threshold; both together hurt more than their sum.
  Some examples gain, so pruning also turns wrong answers into right ones: the signed drop is below the clipped one;
- it leaves at the first layer whose entropy, seen through a miscalibrated head, is below the exit threshold.

True optima of ``make_world()`` (20,000 examples, seed 0), the cheapest setting whose true risk is at most alpha:

    ===========================  ====================  ====================
    controlled                   alpha                 cost
    ===========================  ====================  ====================
    clipped drop                 .025 / .05 / .1       .475 / .338 / .244
    signed drop                  .025 / .05 / .1       .432 / .325 / .240
    clipped drop, worst class    .05 / .1 / .15        .362 / .262 / .206
    clipped, heads pruned only   .025 / .05 / .1       .618 / .486 / .319
    clipped, tokens pruned only  .025 / .05 / .1       .667 / .553 / .430
    clipped, exits only          .025 / .05 / .1       .621 / .526 / .414
    ===========================  ====================  ====================

Run ``python -m benchmarks.adaptive_classifier`` to print them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, xlogy

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]

LAYERS = 12
HEADS = 12
CLASSES = (0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The generating constants of the classifier; the defaults are the ones the true optima are quoted for."""

    accuracy: float = 0.92
    spread: float = 1.7  # standard deviation of the final margin
    class_shift: float = 0.11  # how much the margin falls from one class to the next
    evidence: float = 1.1  # layer j has gathered (j / 12)^evidence of the final margin
    early_noise: float = 0.25  # step of the random walk that leads back from the last layer
    miscalibration: float = 0.1  # log-scale error of the confidence a layer reports
    token_damage: float = 2.5
    token_power: float = 2.7
    head_damage: float = 2.6
    head_power: float = 1.7
    joint_damage: float = 1.5
    individuality: float = 0.6  # spread of an example's sensitivity, relative to its mean
    wobble: float = 0.4  # step of the random walks along the thresholds


@dataclass(frozen=True, slots=True)
class World:
    """A finite population of examples under every setting.

    configs: one row a setting, columns tau_head, tau_token, tau_exit (and lambda); first of each tau: no pruning.
    losses: (n_configs, n_examples) each: error (bool), drop (int8, signed), drop_clipped (bool),
        cost (float32, in (0, 1]), and answered (bool) when the world has lambdas.
    groups: label, (n_examples,).
    shape: the grid, so that ``truth(name).reshape(shape)`` has one axis a threshold.
    """

    configs: pd.DataFrame
    losses: dict[str, NDArray[Any]]
    groups: dict[str, IntArray]
    shape: tuple[int, ...]

    def truth(self, name: str, *, given: str | None = None) -> FloatArray:
        """The true mean of a loss, (n_configs,), among the examples where the indicator `given` holds, if any.

        Integers are summed as integers; nan where `given` never holds.
        """
        values = self.losses[name]
        if given is None:
            return _total(values) / values.shape[1]
        chosen = self.losses[given]
        kept = np.array([_total(row[mask]) for row, mask in zip(values, chosen, strict=True)])
        with np.errstate(invalid="ignore"):
            return kept / _total(chosen)

    def truth_per(self, name: str, group: str = "label") -> FloatArray:
        """The true mean of a loss within each group, (n_configs, n_groups), groups in ascending order."""
        labels = self.groups[group]
        members = [labels == g for g in np.unique(labels)]
        return np.stack([_total(self.losses[name][:, of]) / of.sum() for of in members], axis=1)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[dict[str, NDArray[Any]], dict[str, IntArray]]:
        """n examples i.i.d. from the population: losses, each (n_configs, n), and groups, each (n,)."""
        chosen = rng.integers(self.groups["label"].size, size=n)
        return (
            {name: np.take(values, chosen, axis=1) for name, values in self.losses.items()},
            {name: values[chosen] for name, values in self.groups.items()},
        )


def make_world(
    n_examples: int = 20_000,
    seed: int = 0,
    *,
    heads: int = 18,
    tokens: int = 20,
    exits: int = 18,
    lambdas: tuple[float, ...] | None = None,
    classes: tuple[float, ...] = CLASSES,
    behaviour: Behaviour | None = None,
) -> World:
    """Draw a population of examples and run it through every setting of the heads x tokens x exits grid.

    `lambdas` adds a fourth dimension: an example counts as answered when its confidence is at least lambda.
    Memory is 7 bytes a setting and example (about 900 MB at the default size), time some ten seconds at that size.
    """
    b = behaviour or Behaviour()
    rng = np.random.default_rng(seed)
    tau_head, tau_token = np.linspace(0, 0.12, heads), np.linspace(0, 1.0, tokens)
    exit_confidence = np.concatenate([[np.inf], np.linspace(4.4, 0.2, exits - 1)]).astype(np.float32)
    people = _Population.draw(rng, n_examples, classes, tau_head, tau_token, b)

    shape = (heads, tokens, exits) if lambdas is None else (heads, tokens, exits, len(lambdas))
    losses = _empty_losses(shape, n_examples, answered=lambdas is not None)
    for h in range(heads):
        for t in range(tokens):
            margin, cost = people.forward(h, t)
            confidence = np.abs(margin) * people.report
            surest = np.maximum.accumulate(confidence, axis=0)
            # The last layer always answers, so only the layers before it can be waited through.
            exit_layer = (surest[None, :-1] < exit_confidence[:, None, None]).sum(axis=1, dtype=np.int64)
            at_exit = exit_layer * n_examples + np.arange(n_examples)
            error = margin.ravel()[at_exit] <= 0
            block = losses["error"][h, t]
            if lambdas is None:
                block[:] = error
                losses["cost"][h, t] = cost.ravel()[at_exit]
            else:
                block[:] = error[:, None]
                losses["cost"][h, t] = cost.ravel()[at_exit][:, None]
                sure = expit(confidence.ravel()[at_exit])
                losses["answered"][h, t] = sure[:, None] >= np.asarray(lambdas)[:, None]
            np.subtract(block, people.full_error, out=losses["drop"][h, t], dtype=np.int8)
            np.greater(losses["drop"][h, t], 0, out=losses["drop_clipped"][h, t])

    names = ["tau_head", "tau_token", "tau_exit", "lambda"]
    axes = [tau_head, tau_token, _entropy(exit_confidence)] + ([] if lambdas is None else [np.asarray(lambdas)])
    grid = np.meshgrid(*axes, indexing="ij")
    return World(
        configs=pd.DataFrame({name: axis.ravel() for name, axis in zip(names, grid, strict=False)}),
        losses={name: values.reshape(-1, n_examples) for name, values in losses.items()},
        groups={"label": people.label},
        shape=shape,
    )


@dataclass(frozen=True, slots=True)
class _Population:
    """What the model and the examples bring along; one column an example."""

    label: IntArray  # (n,)
    full_error: NDArray[np.bool_]  # (n,)
    base: FloatArray  # (layers, n) margin of the unpruned model
    report: FloatArray  # (layers, n) reported over actual confidence
    length: IntArray  # (n,)
    token_rate: FloatArray  # (n,)
    sensitivity: FloatArray  # (3, n) to tokens, heads, both
    heads_kept: IntArray  # (heads, layers)
    head_loss: FloatArray  # (heads, layers)
    head_walk: FloatArray  # (heads, n)
    token_walk: FloatArray  # (tokens, n)
    tau_token: FloatArray  # (tokens,)
    behaviour: Behaviour

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        n: int,
        classes: tuple[float, ...],
        tau_head: FloatArray,
        tau_token: FloatArray,
        b: Behaviour,
    ) -> _Population:
        label = rng.choice(len(classes), size=n, p=classes)
        depth = np.arange(1, LAYERS + 1)[:, None] / LAYERS
        final = b.spread * rng.standard_normal(n) - b.class_shift * (label - label.mean())
        final -= np.quantile(final, 1 - b.accuracy)
        steps = b.early_noise * rng.standard_normal((LAYERS - 1, n))
        early = np.concatenate([np.cumsum(steps, axis=0)[::-1], np.zeros((1, n))])
        base = final * depth**b.evidence + early
        length = np.clip(np.exp(rng.normal(4.0, 0.6, n)), 8, 512).astype(np.int64)
        rate = np.exp(rng.normal(0, 0.25, n)) * (length / np.exp(4.0)) ** 0.15
        sensitivity = 1 + b.individuality * rng.standard_normal((3, n))

        head_scores = _head_scores()
        kept = (head_scores[None] > tau_head[:, None, None]) | (head_scores == head_scores.max(axis=1, keepdims=True))
        lost = np.where(kept, 0, head_scores[None]).sum(axis=2)
        head_loss = np.cumsum(lost, axis=1) / np.arange(1, LAYERS + 1)
        f32 = np.float32
        return cls(
            label=label,
            full_error=base[-1] <= 0,
            base=base.astype(f32),
            report=np.exp(b.miscalibration * rng.standard_normal((LAYERS, n))).astype(f32),
            length=length,
            token_rate=rate.astype(f32),
            sensitivity=sensitivity.astype(f32),
            heads_kept=kept.sum(axis=2),
            head_loss=(head_loss**b.head_power).astype(f32),
            head_walk=_walk(rng, tau_head.size, n, b.wobble),
            token_walk=_walk(rng, tau_token.size, n, b.wobble),
            tau_token=tau_token.astype(f32),
            behaviour=b,
        )

    def forward(self, h: int, t: int) -> tuple[FloatArray, FloatArray]:
        """Margin at each layer and relative cost up to each layer (the paper's cost equation), both (layers, n)."""
        b = self.behaviour
        depth = (np.arange(1, LAYERS + 1, dtype=np.float32) / LAYERS)[:, None]
        wanted = np.exp(-self.tau_token[t] * self.token_rate * depth)
        tokens_kept = np.ceil(wanted * self.length).astype(np.float32) / self.length.astype(np.float32)
        token_loss = (1 - tokens_kept) ** np.float32(b.token_power)
        head_loss = self.head_loss[h][:, None]
        to_tokens, to_heads, to_both = self.sensitivity
        damage = token_loss * (b.token_damage * to_tokens)
        damage += head_loss * (b.head_damage * to_heads)
        damage += token_loss * head_loss * (b.joint_damage * to_both)
        margin = self.base - damage + depth * (self.head_walk[h] + self.token_walk[t])
        spent = self.heads_kept[h][:, None] * tokens_kept**2
        cost = np.cumsum(spent, axis=0, dtype=np.float64) / (LAYERS * HEADS)
        return margin, cost.astype(np.float32)


def _head_scores() -> FloatArray:
    """Importance of each head, (layers, heads), rows sum to one; the most important head of a layer is never pruned."""
    scores = np.random.default_rng(12).gamma(2.0, size=(LAYERS, HEADS))
    return scores / scores.sum(axis=1, keepdims=True)


def _walk(rng: np.random.Generator, steps: int, n: int, size: float) -> FloatArray:
    """Random walks along a threshold, (steps, n), that start at 0 and have standard deviation `size` at the end."""
    moves = rng.standard_normal((steps, n)) * (size / np.sqrt(max(steps - 1, 1)))
    moves[0] = 0
    return np.cumsum(moves, axis=0).astype(np.float32)


def _entropy(confidence: FloatArray) -> FloatArray:
    """Entropy (nats) of the top class against the rest when its log-odds are `confidence`; 0 at infinity."""
    p = expit(confidence.astype(np.float64))
    return np.abs(xlogy(p, p) + xlogy(1 - p, 1 - p))


def _empty_losses(shape: tuple[int, ...], n: int, *, answered: bool) -> dict[str, NDArray[Any]]:
    kinds = {"error": np.bool_, "drop": np.int8, "drop_clipped": np.bool_, "cost": np.float32}
    if answered:
        kinds["answered"] = np.bool_
    return {name: np.empty((*shape, n), dtype=kind) for name, kind in kinds.items()}


def _total(values: NDArray[Any]) -> NDArray[Any]:
    """Sum over examples: exact for bool and integers, double precision otherwise."""
    return values.sum(axis=-1, dtype=np.float64 if values.dtype.kind == "f" else np.int64)


def optimum(world: World, risk: FloatArray, alpha: float, among: NDArray[np.bool_] | None = None) -> tuple[float, int]:
    """The cheapest setting whose true risk is at most alpha: its true cost and its row."""
    allowed = risk <= alpha if among is None else (risk <= alpha) & among
    cost = np.where(allowed, world.truth("cost"), np.inf)
    return float(cost.min()), int(cost.argmin())


def optima(world: World) -> pd.DataFrame:
    """True optima, one row a question and alpha: cost and thresholds of the best setting."""
    overall, worst_class = (0.025, 0.05, 0.1), (0.05, 0.1, 0.15)
    taus = [name for name in world.configs if name != "lambda"]
    unpruned = world.configs[taus] == world.configs[taus].iloc[0]
    clipped = world.truth("drop_clipped")
    questions = [
        ("clipped drop", clipped, None, overall),
        ("signed drop", world.truth("drop"), None, overall),
        ("clipped drop, worst class", world.truth_per("drop_clipped").max(axis=1), None, worst_class),
    ]
    for tau in taus:
        alone = unpruned.drop(columns=tau).all(axis=1).to_numpy()
        questions.append((f"clipped drop, {tau} alone", clipped, alone, overall))
    rows = []
    for question, risk, among, alphas in questions:
        for alpha in alphas:
            cost, row = optimum(world, risk, alpha, among)
            rows.append({"question": question, "alpha": alpha, "cost": cost, **world.configs.iloc[row]})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="True optima of the simulated adaptive classifier.")
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    world = make_world(options.examples, options.seed)
    seconds = time.perf_counter() - start
    print(f"{len(world.configs):,} settings x {options.examples:,} examples in {seconds:.1f} s")
    print(f"accuracy of the full model: {1 - world.truth('error')[0]:.3f}")
    print(optima(world).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
