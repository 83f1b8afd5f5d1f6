"""riskfront plan: how many examples it takes, before the first label or from a pilot table."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import riskfront as rf
from riskfront._cli import options
from riskfront._cli.output import say
from riskfront._reporting.terminal import make_console, show_frame
from riskfront.errors import InvalidInputError
from riskfront.experiment._forecast import forecast_words


@options.grouped
def plan(
    wanted: options.ProblemOptions,
    columns: options.TableOptions,
    by: options.MethodOptions,
    pilot: Annotated[str | None, typer.Argument(help="A pilot table, to see what more examples would bring.")] = None,
    expect: Annotated[list[str] | None, typer.Option(help="What a good setting should show: 'error=0.03'.")] = None,
    settings_count: Annotated[int, typer.Option("--choices", help="How many settings there are to choose from.")] = 100,
    chance: Annotated[float, typer.Option(help="Wanted probability that such a setting is certified.")] = 0.8,
    spread: Annotated[list[str] | None, typer.Option(help="Standard deviation of an outcome: 'cost=0.2'.")] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Share of examples that a limit speaks of; per group, of the rarest: 'error=0.2'."),
    ] = None,
    prevalence: Annotated[
        float | None, typer.Option(help="Share of positive examples, for limits on recall, specificity, fpr and fnr.")
    ] = None,
    named: Annotated[
        bool, typer.Option(help="Settings are names (of prompts, models), not numbers on a scale.")
    ] = False,
    factors: Annotated[str, typer.Option(help="Multiples of the pilot's examples, separated by commas.")] = "1,2,10",
    as_json: options.Json = False,
) -> int:
    """How many examples do these limits need?"""
    if pilot is not None:
        given = [name for name, value in (("--expect", expect), ("--spread", spread), ("--share", share)) if value]
        if given:
            raise InvalidInputError(f"a pilot table shows what to expect; got {', '.join(given)} too. Leave one out.")
        problem = wanted.problem()
        table = columns.read(pilot, problem, quiet=as_json)
        found = rf.forecast(table, problem, factors=options.parse_numbers(factors, "--factors"), method=by.made())
        if as_json:
            print(found.to_json(orient="records"))
            return 0
        show_frame(make_console(), "What more examples would bring", found, left=0)
        say(forecast_words(found, problem))
        return 0
    if not expect:
        raise InvalidInputError(
            "plan needs what a good setting should show, as --expect 'error=0.03', or a pilot table; got neither."
        )
    made = rf.plan_sample(
        [rf.Limit.parse(text, reference=wanted.reference or None) for text in wanted.limit],
        _numbers(expect, "--expect"),
        settings=settings_count,
        delta=wanted.delta,
        chance=chance,
        spread=_numbers(spread or [], "--spread"),
        shares=_numbers(share or [], "--share"),
        prevalence=prevalence,
        bounds=columns.declared_bounds(),
        method=by.made(),
        named=named,
    )
    if as_json:
        print(json.dumps({"examples": made.examples, "testing": made.testing, "curve": made.curve.to_dict("records")}))
        return 0
    say(str(made), "bold")
    show_frame(make_console(), "Chance of a certificate", made.curve, left=0)
    return 0


def _numbers(texts: list[str], option: str) -> dict[str, float]:
    """ "error=0.03" -> {"error": 0.03}."""
    found = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not sign or not name.strip():
            raise InvalidInputError(f"{option} must read like 'error=0.03'; got {text!r}.")
        found[name.strip()] = options.parse_number(value, option)
    return found
