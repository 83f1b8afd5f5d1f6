"""The testing examples of a task are spent by the first question they answer: the record, and what happens to a second one.

A look is written down before anything is tested, so that a run that was stopped in between counts too. To repeat a question, or
to go on with it, is no new look.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from riskfront.certificates.looks import Look
from riskfront.errors import SpentExamplesError, StoreError
from riskfront.spaces.space import Config
from riskfront.stores.storage import Storage

_FOLDER = "looks"


def searched_before(storage: Storage, examples: Mapping[str, str], call: str) -> list[Config] | None:
    """The settings that the same call found when it was made before, so that to repeat it is to repeat its question."""
    found = (
        seen["searched"] for seen in _recorded(storage) if (seen["call"], seen["examples"]) == (call, dict(examples))
    )
    return next(found, None)


def look_once(
    storage: Storage,
    examples: Mapping[str, str],
    look: Look,
    call: str,
    searched: Sequence[Config],
    *,
    again: bool,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Look, ...]:
    """Write a look down; the other looks at the same testing examples, or an error if there are any and ``again`` is not set.

    Args:
        storage: where looks are recorded.
        examples: the identity of the task: other examples are not spent by this one's looks.
        look: what is asked now.
        call: a digest of the call that asks, and ``searched`` the settings it found.
        again: ask although the examples are spent; the deltas of all looks add up.
        parameters: of the method, by which a certificate is known again.
    """
    spent = [
        Look(**{**seen["look"], "counts": True}) for seen in _recorded(storage) if seen["examples"] == dict(examples)
    ]
    position = next((i for i, seen in enumerate(spent) if seen.question == look.question), len(spent))
    earlier = tuple(spent[:position])
    if position < len(spent):
        return earlier
    if spent and not again:
        raise SpentExamplesError(_said(storage.url, spent))
    total = look.delta + sum(seen.delta for seen in spent)
    if total >= 1:
        raise SpentExamplesError(
            f"the deltas of all looks at the same testing examples must add up to less than 1; with this one they are "
            f"{total:g}. No confidence is left: use testing examples that were not looked at."
        )
    entry: dict[str, Any] = {
        "look": look.to_dict(),
        "examples": dict(examples),
        "call": call,
        "searched": list(searched),
        "parameters": dict(parameters or {}),
    }
    whose = hashlib.sha256(json.dumps(dict(examples), sort_keys=True).encode()).hexdigest()
    # of the same examples only: the record may be shared, and others may have answered the same question
    name = f"{_FOLDER}/{len(spent):04d}-{whose[:16]}-{look.question[:16]}.json"
    if not storage.create(name, json.dumps(entry, indent=1).encode()):
        return look_once(
            storage, examples, look, call, searched, again=again, parameters=parameters
        )  # another process wrote the same look down just now
    return earlier


def recorded_before(
    storage: Storage, asked: str, searched: Sequence[Config], parameters: Mapping[str, Any]
) -> tuple[Look, ...]:
    """The looks that were recorded before this one at the same testing examples; none where this one is not on record.

    Args:
        asked: the question in words, ``searched`` the settings that were found, ``parameters`` those of the method: a
            certificate names these, and not the question's digest. The net is left out: a search casts none.
    """
    records = _recorded(storage)
    wanted = {name: value for name, value in parameters.items() if name != "net"}

    def is_this_one(seen: Mapping[str, Any]) -> bool:
        known = seen.get("parameters", wanted)  # earlier versions did not write them down
        same = {name: value for name, value in known.items() if name != "net"} == wanted
        return same and (seen["look"]["asked"], seen["searched"]) == (asked, list(searched))

    mine = next((i for i, seen in enumerate(records) if is_this_one(seen)), None)
    if mine is None:
        return ()
    same = [seen["look"] for seen in records[:mine] if seen["examples"] == records[mine]["examples"]]
    return tuple(Look(**{**seen, "counts": True}) for seen in same)


def _recorded(storage: Storage) -> list[dict[str, Any]]:
    names = [name for name in storage.names(_FOLDER) if name.endswith(".json")]
    try:
        return [json.loads(storage.read(f"{_FOLDER}/{name}") or b"") for name in sorted(names)]
    except ValueError:
        raise StoreError(
            f"the record of looks at testing examples in '{storage.url}/{_FOLDER}' must be JSON; it was damaged. Restore it "
            "from a copy, or use testing examples that were not looked at."
        ) from None


def _said(url: str, spent: list[Look]) -> str:
    listed = " | ".join(look.asked for look in spent)
    left = 100 * (1 - sum(look.delta for look in spent))
    return (
        f"the testing examples must not be spent; those of '{url}' have answered {len(spent)} other question"
        f"{'s' if len(spent) > 1 else ''}: {listed}. To ask again until something passes breaks the guarantee (at delta 0.1, "
        "ten looks gave false certificates in 0.4 of runs). Use new examples in another store; or repeat the first question, "
        "which gives its answer; or set again=True (--again), and the certificate states the confidence that is left after "
        f"all looks: {left:.4g} % less the delta of this one."
    )
