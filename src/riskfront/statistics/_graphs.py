"""Graphs along which the error budget of a graphical test moves: neighbour lists, never a dense matrix.

Node i starts with the share ``weights[i]`` of delta. When it is rejected, the part ``transitions[e]`` of its share moves
along each of its edges e to the node ``targets[e]``; the edges of node i are those from ``starts[i]`` to ``starts[i + 1]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError

_ROUNDING = 1e-9
_NARROW = 16  # stages with fewer nodes than this on average are walked edge by edge


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Weights (n,), and edges as neighbour lists: starts (n + 1,), targets (edges,), transitions (edges,)."""

    weights: FloatArray
    starts: IntArray
    targets: IntArray
    transitions: FloatArray
    _stages: list[_Stage] | None = field(init=False, repr=False)
    _edges: list[tuple[int, int, float]] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sources = np.repeat(np.arange(self.weights.size), np.diff(self.starts))
        if self.weights.min(initial=0.0) < 0 or self.weights.sum() > 1 + _ROUNDING:
            raise InvalidInputError(
                f"the weights of a graph must be at least 0 and sum to at most 1; got a sum of {self.weights.sum():g}."
            )
        passed_on = np.bincount(sources, self.transitions, minlength=self.weights.size)
        if self.transitions.min(initial=0.0) < 0 or passed_on.max(initial=0.0) > 1 + _ROUNDING:
            raise InvalidInputError(
                "the transitions out of a node must be at least 0 and sum to at most 1; "
                f"got a sum of {passed_on.max(initial=0.0):g} at node {int(np.argmax(passed_on))}."
            )
        if np.any(sources == self.targets):
            raise InvalidInputError("a graph must have no edge from a node to itself; remove it.")
        stages = _stages(sources, self.targets, self.transitions, self.weights.size)
        narrow = stages is not None and len(stages) * _NARROW > self.weights.size
        object.__setattr__(self, "_stages", stages)
        object.__setattr__(self, "_edges", _in_order(stages) if stages is not None and narrow else None)

    def final_weights(self, p_values: FloatArray, delta: float) -> FloatArray:
        """The share of delta at which each node is finally judged; nan where no budget ever arrives.

        A node is rejected exactly if its p-value is at most delta times its share. Which nodes are rejected does not
        depend on the order in which rejectable nodes are taken.
        """
        if p_values.shape != self.weights.shape:
            raise InvalidInputError(
                f"a graph of {self.weights.size} nodes needs as many p-values; got shape {p_values.shape}."
            )
        if self._stages is None:
            weights = _test_any_graph(self, p_values, delta)
        elif self._edges is not None:
            weights = _test_narrow(self._edges, self.weights, p_values, delta)
        else:
            weights = _test_wide(self._stages, self.weights, p_values, delta)
        # an exact zero p-value (an underflow, say) must not be rejected by a node that holds no budget
        return np.where(weights > 0, weights, np.nan)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The edges out of nodes that no edge connects with each other, all of whose predecessors lie in earlier stages."""

    sources: IntArray
    targets: IntArray
    transitions: FloatArray


def _stages(sources: IntArray, targets: IntArray, transitions: FloatArray, n: int) -> list[_Stage] | None:
    """The edges in topological order, or None when the graph has a cycle."""
    depth = np.full(n, -1, dtype=np.int64)
    waiting = np.bincount(targets, minlength=n)
    starts = np.searchsorted(sources, np.arange(n + 1))
    ready = np.flatnonzero(waiting == 0)
    stages: list[_Stage] = []
    while ready.size:
        depth[ready] = len(stages)
        counts = starts[ready + 1] - starts[ready]
        edges = np.repeat(starts[ready] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(
            counts.sum()
        )
        if edges.size:
            stages.append(_Stage(sources[edges], targets[edges], transitions[edges]))
        np.subtract.at(waiting, targets[edges], 1)
        reached = np.unique(targets[edges])
        ready = reached[waiting[reached] == 0]
    return None if np.any(depth < 0) else stages


def _test_wide(stages: list[_Stage], start: FloatArray, p_values: FloatArray, delta: float) -> FloatArray:
    """One pass in topological order, a whole stage at a time.

    Every budget that can still reach a node arrives before its stage, so one pass decides for good.
    """
    weights = start.copy()
    for stage in stages:
        nodes = stage.sources
        passed = np.where(p_values[nodes] <= delta * weights[nodes], weights[nodes], 0.0)
        np.add.at(weights, stage.targets, passed * stage.transitions)
    return weights


def _test_narrow(
    edges: list[tuple[int, int, float]], start: FloatArray, p_values: FloatArray, delta: float
) -> FloatArray:
    """The same pass edge by edge, for graphs such as chains whose stages hold too few nodes to be worth an array."""
    weights, p = start.tolist(), p_values.tolist()
    for source, target, transition in edges:
        if p[source] <= delta * weights[source]:
            weights[target] += weights[source] * transition
    return np.asarray(weights)


def _in_order(stages: list[_Stage]) -> list[tuple[int, int, float]]:
    return [
        edge
        for s in stages
        for edge in zip(s.sources.tolist(), s.targets.tolist(), s.transitions.tolist(), strict=True)
    ]


def _test_any_graph(graph: Graph, p_values: FloatArray, delta: float) -> FloatArray:
    """The general procedure, for graphs with cycles: reject, pass the budget on, rewire around the rejected node."""
    n = graph.weights.size
    weights = graph.weights.copy()
    out: list[dict[int, float]] = [
        dict(zip(graph.targets[a:b].tolist(), graph.transitions[a:b].tolist(), strict=True))
        for a, b in zip(graph.starts[:-1], graph.starts[1:], strict=True)
    ]
    into: list[set[int]] = [set() for _ in range(n)]
    for node, edges in enumerate(out):
        for target in edges:
            into[target].add(node)
    pending = list(range(n))
    rejected = np.zeros(n, dtype=bool)
    while pending:
        i = pending.pop()
        if rejected[i] or not (weights[i] > 0 and p_values[i] <= delta * weights[i]):
            continue
        rejected[i] = True
        for j, share in out[i].items():
            weights[j] += weights[i] * share
            into[j].discard(i)
            pending.append(j)
        for j in into[i]:
            _rewire(j, i, out, into)
    return weights


def _rewire(j: int, i: int, out: list[dict[int, float]], into: list[set[int]]) -> None:
    """Replace the way from j over the rejected node i by direct edges: g_jk = (g_jk + g_ji g_ik) / (1 - g_ji g_ij)."""
    to_i = out[j].pop(i)
    remaining = 1 - to_i * out[i].get(j, 0.0)
    for k, share in out[i].items():
        if k != j:
            out[j][k] = out[j].get(k, 0.0) + to_i * share
            into[k].add(j)
    for k in out[j]:
        out[j][k] = out[j][k] / remaining if remaining > _ROUNDING else 0.0


def fallback(shape: Sequence[int]) -> Graph:
    """Budget split equally over the first axis, then a fixed sequence through the other axes, nearest to the origin first.

    A sequence that is rejected to its end hands its budget to the head of the next one.
    Nodes are the cells of a grid of ``shape`` in C order; the safest setting of each slice is at its origin.
    """
    first, rest = shape[0], tuple(shape[1:])
    size = int(np.prod(rest, dtype=np.int64))
    steps = np.indices(rest).reshape(len(rest), -1).sum(axis=0) if rest else np.zeros(1, dtype=np.int64)
    within = np.argsort(steps, kind="stable")
    path = (np.arange(first)[:, None] * size + within).ravel()
    weights = np.zeros(first * size)
    weights[path[::size]] = 1.0 / first
    return _from_edges(weights, path[:-1], path[1:], np.ones(path.size - 1))


def hamming(shape: Sequence[int]) -> Graph:
    """All the budget on the origin of a grid; a rejected node passes its own on in equal parts to its next neighbours
    along each axis. Nodes are the cells of a grid of ``shape`` in C order; the safest setting is at the origin."""
    cells = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    pairs = [
        (np.take(cells, range(length - 1), axis).ravel(), np.take(cells, range(1, length), axis).ravel())
        for axis, length in enumerate(shape)
    ]
    sources = np.concatenate([a for a, _ in pairs]) if pairs else np.empty(0, dtype=np.int64)
    targets = np.concatenate([b for _, b in pairs]) if pairs else np.empty(0, dtype=np.int64)
    neighbours = np.bincount(sources, minlength=cells.size)
    return _from_edges(np.eye(1, cells.size).ravel(), sources, targets, 1.0 / neighbours[sources])


def _from_edges(weights: FloatArray, sources: IntArray, targets: IntArray, transitions: FloatArray) -> Graph:
    order = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[order], np.arange(weights.size + 1))
    return Graph(weights, starts, targets[order], transitions[order])
