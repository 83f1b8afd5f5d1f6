"""The identity of a task: fingerprints of its code, its packages, its examples and its groups, the same in every run.

The code is the losses function and everything of the user's that it leads to, the packages are the versions of installed ones
that it names, as ``_support/object_digest.py`` has it, which also says what is not covered.

An object with a text attribute ``fingerprint`` names itself: a data set too large to hash, or a model behind a service. A
function that does is known by that name alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from riskfront._data.groups import all_groups
from riskfront._support.object_digest import described_code, fingerprint_data, joined


@dataclass(frozen=True, slots=True)
class Task:
    """What a store belongs to.

    Args:
        n_examples: how many examples each setting is evaluated on.
        identity: part of the task, such as "code" or "examples" -> its fingerprint. A store never mixes two.
        groups: name -> (n_examples,).
        bounds: name of a loss -> (low, high).
    """

    n_examples: int
    identity: Mapping[str, str]
    groups: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        losses: Callable[..., Any],
        examples: Any,
        groups: Mapping[str, Any] | pd.DataFrame | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        **more: Any,
    ) -> Task:
        """The task of a function on examples; ``more`` are further parts of its identity, as JSON values."""
        coded = all_groups(groups, len(examples))
        code = described_code(losses)
        identity = {"code": code.digest, "packages": code.packages, "examples": fingerprint_data(examples)}
        # levels too: a category that no example has decides what can be certified
        identity["groups"] = fingerprint_data([[name, coded[name].levels, coded[name].codes] for name in sorted(coded)])
        identity |= {name: joined("json", [json.dumps(value, sort_keys=True)]) for name, value in more.items()}
        return cls(len(examples), identity, coded, dict(bounds or {}))
