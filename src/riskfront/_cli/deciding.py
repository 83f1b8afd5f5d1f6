"""decide and choose: a page to decide on, and the certificate of what was decided."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

import riskfront as rf
from riskfront._calibration.frontier_plan import with_value
from riskfront._cli import options
from riskfront._cli.output import command_line, say, say_written, show
from riskfront._data.reading.sources import notes_of
from riskfront._reporting.terminal import make_console, show_frame
from riskfront.errors import InvalidInputError

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# "0.01..0.1", "0.01..0.1/7", "1..10 %", "1 %..10 %"; a lone per cent sign at the lower end is no range
_RANGE = re.compile(rf"(?P<low>{_NUMBER})(?:\s*%(?=[^%]*%))?\s*\.\.\s*(?P<high>{_NUMBER})(?:\s*/\s*(?P<count>\d+))?")
_VALUES_OF_ONE, _VALUES_OF_SEVERAL = 21, 13  # at most, where the number of values is left open
_SHOWN = 25  # rows in the terminal


@options.grouped
def decide(
    table: options.TableFile,
    wanted: options.ProblemOptions,
    columns: options.TableOptions,
    by: options.MethodOptions,
    p_value: options.PValue = "auto",
    seed: options.Seed = 0,
    unlabelled: options.Unlabelled = "",
    page: Annotated[Path | None, typer.Option(help="HTML page to write: sliders, and what each limit buys.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write the frontier to, for riskfront choose.")] = None,
    as_json: options.Json = False,
) -> int:
    """Certify whole ranges of limits with one confidence, and decide by looking: 'error <= 0.01..0.10'."""
    options.must_be_writable(page, out, inputs=[table, *([unlabelled] if unlabelled else [])])
    problem, values = ranges(wanted, p_value)
    losses = columns.read(table, problem, quiet=as_json)
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    frontier = rf.frontier(losses, problem, values, method=by.made(), seed=seed, simultaneous=True, unlabelled=others)
    frontier = replace(frontier, source=asdict(columns), notes=(*notes_of(table), *frontier.notes))
    if out is not None:
        frontier.save(out)
    if page is not None:
        rf.write_decide_page(frontier, page, file=None if out is None else str(out), command=command_line())
    return show_frontier(frontier, as_json, [path for path in (out, page) if path is not None])


def show_frontier(frontier: rf.Frontier, as_json: bool, written: list[Path]) -> int:
    """The best settings in the terminal, and what is guaranteed, or all as JSON; the exit status."""
    if as_json:
        print(json.dumps(frontier.to_dict(), allow_nan=False))
    else:
        _show_best(frontier)
        say_written(written)
    return 0 if frontier and frontier.guaranteed else 1


def _show_best(frontier: rf.Frontier) -> None:
    say(frontier.guarantee(), "bold" if frontier.guaranteed else "bold red")
    goals = [objective.name for objective in frontier.problem.objectives]
    limits = [f"limit on {name}" for name in frontier.values]
    shown = frontier.frame.iloc[::-1][[*limits, "n_certified", *frontier.setting_columns.values(), *goals]]
    title, step = "Best certified settings", math.ceil(len(shown) / _SHOWN)
    if step > 1:
        title += f" (every {step}. of {len(shown):,} combinations; the page and the file hold all)"
    show_frame(make_console(), title, shown.iloc[::step].rename(columns={"n_certified": "certified settings"}))


def choose(
    frontier: Annotated[
        Path,
        typer.Argument(
            help="A frontier, as JSON, from riskfront decide; or the folder of accelerate --decide or of a cascade, which "
            "takes the certificate in."
        ),
    ],
    limit: Annotated[
        list[str],
        typer.Option("--limit", help="The value of a limit, as 'error <= 0.05'; one for each limit of the frontier."),
    ],
    out: options.Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    choose: options.ChooseOption = "",
    runs: Annotated[str, typer.Option("--runs", help="The runs of a cascade: its policy goes into the folder.")] = "",
    as_json: options.Json = False,
) -> int:
    """Take the certificate of one combination of limits from a frontier. It costs nothing: all hold together."""
    options.must_be_writable(out, report, inputs=[frontier])
    found = rf.Frontier.load(frontier / "frontier.json" if frontier.is_dir() else frontier)
    values = chosen_values(found, limit)
    certificate = found.choose(values, choose)
    written = [path for path in (out, report) if path is not None]
    of_cascade = "cascade" in (found.source or {})
    if bool(runs) is not (of_cascade and frontier.is_dir()):
        raise InvalidInputError(
            "--runs must be given for the folder of a cascade, and for nothing else: riskfront choose FOLDER --runs RUNS. "
            f"'{frontier}' is {'the folder of a cascade' if not runs else 'another frontier'}."
        )
    if of_cascade and frontier.is_dir():
        from riskfront._cli.cascades import take_in

        certificate, policy = take_in(certificate, frontier, runs)
        written += policy
    elif frontier.is_dir():  # of an accelerated classifier, which takes its certificate in
        from riskfront.transformers import choose_limits
        from riskfront.transformers._speed_up import Gain

        choose_limits(frontier, values, choose)
        if (gain := Gain.load(frontier)) is not None and not as_json:
            say(gain.sentence(certificate.problem, certificate.delta_of_all_looks), "bold")
        written.insert(0, frontier)
    if out is not None:
        certificate.save(out)
    if report is not None:
        rf.write_report(certificate, report, command=command_line())
    return show(certificate, as_json, written)


def chosen_values(frontier: rf.Frontier, texts: list[str]) -> dict[str, float]:
    """Limit name -> value, from texts such as "error <= 0.05" or "error=0.05"."""
    found: dict[str, float] = {}
    for text in texts:
        name, value = _named_value(frontier, text)
        if name in found:
            raise InvalidInputError(f"a choice must name each limit once; got '{name}' twice.")
        found[name] = value
    return found


def _named_value(frontier: rf.Frontier, text: str) -> tuple[str, float]:
    limits = dict(zip(frontier.problem.limit_names, frontier.problem.limits, strict=True))
    plain = re.match(rf"^\s*(?P<name>.+?)\s*(?P<sign>=|<=|>=)\s*(?P<value>{_NUMBER})\s*$", text)
    if plain is not None and plain["name"] in limits:  # by its name, as the page copies it: "error per label <= 0.2"
        own = "<=" if limits[plain["name"]].at_least is None else ">="
        if plain["sign"] in ("=", own):
            return plain["name"], float(plain["value"])
    for name, limit in limits.items():
        parsed = rf.Limit.parse(text, reference=limit.drop_from)
        same_side = (limit.at_least is None) is (parsed.at_least is None)
        if same_side and with_value(limit, parsed.value).name == parsed.name:
            return name, parsed.value
    raise InvalidInputError(f"'{text}' must be one of the limits of the frontier: {', '.join(limits)}.")


def ranges(wanted: options.ProblemOptions, p_value: str = "auto") -> tuple[rf.Problem, dict[str, list[float]]]:
    """The problem, at the loose end of every range, and the values of each limit that is given as a range."""
    found = [_RANGE.search(text) for text in wanted.limit]
    varied = sum(match is not None for match in found)
    if not varied:
        raise InvalidInputError(
            f"at least one limit must be a range, as 'error <= 0.01..0.10'; got {', '.join(wanted.limit) or 'none'}. "
            "For limits that are known beforehand: riskfront calibrate."
        )
    most = _VALUES_OF_ONE if varied == 1 else _VALUES_OF_SEVERAL
    texts, listed = [], []
    for text, match in zip(wanted.limit, found, strict=True):
        if match is None:
            texts.append(text)
            continue
        values = grid_values(float(match["low"]), float(match["high"]), int(match["count"] or 0), most)
        loose = values[0] if re.search(r">|≥", text) else values[-1]
        texts.append(text[: match.start()] + f"{loose!r}" + text[match.end() :])
        listed.append((len(texts) - 1, [v / 100 for v in values] if "%" in text[match.end() :] else values))
    problem = replace(wanted, limit=texts).problem(p_value)
    return problem, {problem.limit_names[place]: values for place, values in listed}


def grid_values(low: float, high: float, count: int, most: int) -> list[float]:
    """``count`` values from low to high; without a count, values at a round distance (1, 2, 2.5 or 5), at most ``most``."""
    if not low < high:
        raise InvalidInputError(f"a range must go from a smaller number to a larger one; got {low:g}..{high:g}.")
    if count == 1:
        raise InvalidInputError(f"a range must have at least two values; got {low:g}..{high:g}/1.")
    if count:
        return [float(f"{low + (high - low) * k / (count - 1):.10g}") for k in range(count)]
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    gap = next(k * size for k in (1, 2, 2.5, 5, 10) if (high - low) / (k * size) <= most - 1 + 1e-9)
    steps = math.floor((high - low) / gap + 1e-9)
    values = [float(f"{low + k * gap:.10g}") for k in range(steps + 1)]
    return values if values[-1] == high else [*values, high]
