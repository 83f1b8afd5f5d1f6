"""check: a certificate or a policy against new data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

import riskfront as rf
from riskfront._cli.options import Json, RepeatsOption, TableFile, TableOptions, grouped
from riskfront._cli.output import say
from riskfront._data.identity.fingerprints import Repeats
from riskfront._reporting.terminal import make_console, show_grid
from riskfront._support.checked_json import parse_json
from riskfront._verification.check import BROKEN, HOLDS, Check
from riskfront.errors import InvalidInputError


@grouped
def check(
    certificate: Annotated[
        Path, typer.Argument(help="A certificate or a policy, as JSON, or the folder of an accelerated classifier.")
    ],
    table: TableFile,
    columns: TableOptions,
    delta: Annotated[
        float | None, typer.Option(help="Probability with which the check may be wrong; by default the certificate's.")
    ] = None,
    leave_out_repeats: Annotated[
        bool,
        typer.Option(
            "--leave-out-repeats", help="Of a folder: go on without texts that were learnt from or used before."
        ),
    ] = False,
    repeats: RepeatsOption = "refuse",
    as_json: Json = False,
) -> int:
    """Test on new data whether the certified setting still keeps its limits."""
    if certificate.is_dir():
        from riskfront.transformers._cascade.cascade_classifier import load_accelerated

        deployed = load_accelerated(certificate)
        found = deployed.check(table, delta=delta, leave_out_repeats=leave_out_repeats)
        return _show(found, as_json)
    policy = rf.Policy.load(certificate) if is_policy(certificate) else None
    if policy is not None:
        from riskfront._cascades.replay import replay

        claimed = policy.certificate
        new = replay(policy, rf.read_runs(table, where=columns.where), cast(Repeats, repeats))
    else:
        claimed = rf.Certificate.load(certificate)
        new = columns.as_for(claimed).read(table, claimed.problem, quiet=as_json)
    status = _show(rf.check(claimed, new, delta=delta), as_json)
    if policy is not None and not as_json:
        say(str(new.intake), "dim")
    return status


def is_policy(path: Path) -> bool:
    try:
        data = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return False  # reading it as a certificate says what is wrong
    if not isinstance(data, dict):
        raise InvalidInputError(f"'{path}' must be a certificate or a policy; it is neither.")
    return data.get("schema") == "riskfront.policy"


def _show(found: Check, as_json: bool) -> int:
    """The check in the terminal, or as JSON; the exit status."""
    status = 1 if found.says == BROKEN else 0
    if as_json:
        shown = {"says": found.says, "config": found.config, "n": found.n, "delta": found.delta}
        print(json.dumps({**shown, "limits": json.loads(found.limits.to_json(orient="records"))}))
        return status
    say(found.verdict(), {HOLDS: "bold green", BROKEN: "bold red"}.get(found.says, "bold"))
    limits = found.limits
    named = limits["limit"] + [f" ({group})" if group is not None else "" for group in limits["group"]]
    rows = list(zip(named, limits["measured"], limits["n"], limits["says"], strict=True))
    show_grid(make_console(), "\nLimits on the new examples", ["limit", "measured", "examples", "says"], rows)
    return status
