"""check: a certificate or a policy against new data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import riskfront as rf
from riskfront.cli.groups import grouped
from riskfront.cli.options import Json, TableFile, TableOptions
from riskfront.errors import InvalidInputError
from riskfront.reporting.terminal import make_console, show_grid
from riskfront.verification.check import BROKEN, HOLDS, Check


@grouped
def check(
    certificate: Annotated[Path, typer.Argument(help="A certificate or a policy, as JSON.")],
    table: TableFile,
    columns: TableOptions,
    delta: Annotated[
        float | None, typer.Option(help="Probability with which the check may be wrong; the certificate's.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Test on new data whether the certified setting still keeps its limits."""
    if _is_policy(certificate):
        from riskfront.cascades.replay import replay

        policy = rf.Policy.load(certificate)
        claimed, new = policy.certificate, replay(policy, rf.read_runs(table, where=columns.where))
    else:
        claimed = rf.Certificate.load(certificate)
        was = claimed.source or {}  # read the file as the first one was read, unless told otherwise
        as_then = {name: now or was.get(name, now) for name, now in asdict(columns).items()}
        new = TableOptions(**as_then).read(table, claimed.problem, quiet=as_json)
    found = rf.check(claimed, new, delta=delta)
    _show(found, as_json)
    return 1 if found.says == BROKEN else 0


def _is_policy(path: Path) -> bool:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
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
