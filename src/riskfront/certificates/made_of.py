"""Which examples a certificate was made of, so that a check on them is not taken for a check on new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from riskfront.certificates.certificate import Certificate
from riskfront.losses.contents import seen_in, sketch_of
from riskfront.losses.table import LossTable

_SETTINGS = 8  # chosen settings that are looked at: a policy uses one of the first


def made_of(certificate: Certificate, table: LossTable) -> dict[str, Any]:
    """For each chosen setting a few contents of the examples: what it lost in limits and objectives."""
    if not certificate:
        return {}
    losses = sorted(set(certificate.problem.losses) & set(table.loss_names))
    found = {
        _key(config): sketch_of(table, row, losses)
        for config, row in zip(certificate.configs, _rows(certificate, table), strict=False)
    }
    return {"losses": losses, "settings": {key: one for key, one in found.items() if one is not None}}


def known_examples(certificate: Certificate, table: LossTable, row: int) -> int:
    """About how many examples of a table are those the certificate was made of; 0 where chance could explain it."""
    losses = certificate.made_of.get("losses", [])
    one: Mapping[str, Any] | None = certificate.made_of.get("settings", {}).get(_key(certificate.config))
    if one is None or not set(losses) <= set(table.loss_names):
        return 0
    return seen_in(one, table, row, losses)


def _rows(certificate: Certificate, table: LossTable) -> list[int]:
    """Where the first chosen settings are in the table."""
    columns = {str(name): table.configs[name].to_numpy() for name in table.config_names}
    wanted = certificate.configs[:_SETTINGS]
    return [int(np.argmax(np.all([columns[name] == config[name] for name in config], axis=0))) for config in wanted]


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
