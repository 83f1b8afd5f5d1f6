"""check: a certificate or a policy against new data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

import riskfront as rf
from riskfront._cli.options import Json, RepeatsOption, TableFile, TableOptions, grouped
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
        _show(found, as_json)
        return 1 if found.says == BROKEN else 0
    if is_policy(certificate):
        from riskfront._cascades.replay import replay

        policy = rf.Policy.load(certificate)
        claimed = policy.certificate
        new = replay(policy, rf.read_runs(table, where=columns.where), cast(Repeats, repeats))
    else:
        claimed = rf.Certificate.load(certificate)
        was = claimed.source or {}  # read the file as the first one was read, unless told otherwise
        as_then = {name: now or was.get(name, now) for name, now in asdict(columns).items()}
        new = TableOptions(**as_then).read(table, claimed.problem, quiet=as_json)
    found = rf.check(claimed, new, delta=delta)
    _show(found, as_json)
    if not as_json and is_policy(certificate):
        make_console().print(str(new.intake), markup=False, style="dim")
    return 1 if found.says == BROKEN else 0


def is_policy(path: Path) -> bool:
    try:
        data = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return False  # reading it as a certificate says what is wrong
    if not isinstance(data, dict):
        raise InvalidInputError(f"'{path}' must be a certificate or a policy; it is neither.")
    return data.get("schema") == "riskfront.policy"


def _show(found: Check, as_json: bool) -> None:
    if as_json:
        limits = json.loads(found.limits.to_json(orient="records"))
        print(
            json.dumps(
                {"says": found.says, "config": found.config, "n": found.n, "delta": found.delta, "limits": limits}
            )
        )
        return
    console = make_console()
    style = {HOLDS: "bold green", BROKEN: "bold red"}.get(found.says, "bold")
    console.print(found.verdict(), style=style, markup=False)
    rows = [
        [
            row["limit"] + (f" ({row['group']})" if row["group"] is not None else ""),
            row["measured"],
            row["n"],
            row["says"],
        ]
        for row in found.limits.to_dict("records")
    ]
    show_grid(console, "\nLimits on the new examples", ["limit", "measured", "examples", "says"], rows)
