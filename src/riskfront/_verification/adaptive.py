"""Recompute a certificate of tune(adaptive=True) from its store, without the user's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._data.groups import Groups
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.open_storage import open_storage
from riskfront._problems.spaces.space import Config
from riskfront._running.tuning.adaptive import AdaptiveRun
from riskfront._running.tuning.chunked_outcomes import ChunkedOutcomes
from riskfront._running.tuning.recorded_uses import recorded_before
from riskfront._running.tuning.tune import use_of
from riskfront.errors import InvalidInputError, StoreError
from riskfront.methods._registry import rebuild_method


def adaptively_again(certificate: Certificate, url: str) -> Certificate:
    """Plan on the planning chunks of a store and test on its testing chunks, as far as the certificate did.

    Which settings raced all the way is read off the certificate: the race looked at planning examples only, so that any
    outcome of it is as valid.
    """
    configs = certificate.searched
    if configs is None or certificate.explored is None:
        raise InvalidInputError(
            "a store recomputes a certificate of tune, which names the settings it searched; this one names none."
        )
    bounds = {name: (float(low), float(high)) for name, (low, high) in certificate.loss_bounds.items()}
    own = list(configs)
    opt, test = (_outcomes(url, part, own, bounds) for part in ("opt", "test"))
    n_opt = int(opt.edges[-1])
    finalists = [row for row, n in enumerate(certificate.explored["examples"]) if n == n_opt]
    method = rebuild_method(certificate.method, certificate.parameters)
    run = AdaptiveRun(certificate.problem, method, own, opt, test, finalists=finalists)
    testing = run.testing()
    testing.path.advance()
    if testing.path.wanted():
        row, chunk = testing.path.wanted()[0]
        raise StoreError(
            f"the store '{url}' must hold the test losses of every tested setting; it has none of {own[row]} on chunk {chunk}. "
            "It is not the store of this certificate, or it was changed."
        )
    again = run.certificate(testing, opt_notes(url))
    asked = use_of(testing.plan, certificate.problem).asked
    looks = recorded_before(open_storage(url), asked, run.finalist_configs, certificate.parameters)
    spent = {name: value for name, value in (certificate.evaluations or {}).items() if name in ("spent", "full table")}
    return replace(again, evaluations={**(again.evaluations or {}), **spent}, earlier_looks=looks)


def opt_notes(url: str) -> tuple[str, ...]:
    return LossStore(f"{url}/test/0", whole=False).notes


def _outcomes(url: str, part: str, configs: list[Config], bounds: dict[str, tuple[float, float]]) -> ChunkedOutcomes:
    chunks: list[LossStore] = []
    storage = open_storage(url)
    while storage.read(f"{part}/{len(chunks)}/zarr.json") is not None:
        chunks.append(LossStore(f"{url}/{part}/{len(chunks)}", whole=False))
    if not chunks:
        raise StoreError(f"'{url}' must be the store of tune(adaptive=True); it has no chunks of outcomes.")
    edges = np.cumsum([0, *(chunk.n_examples for chunk in chunks)])
    declared = {**chunks[0].bounds, **bounds}  # those of losses without a limit are in the store alone
    return ChunkedOutcomes(None, edges, _joined([chunk.groups() for chunk in chunks]), chunks, configs, declared)


def _joined(groups: Sequence[dict[str, Groups]]) -> dict[str, Groups]:
    return {
        name: Groups(of.levels, np.concatenate([part[name].codes for part in groups])) for name, of in groups[0].items()
    }
