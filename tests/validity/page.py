"""The validity page, from what was measured: a short table, the traps, and every line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import riskfront as rf
from tests.validity.measured import LEVEL, Measured
from tests.validity.trial_of_traps import Fell

_HEAD = """# Validity

Every guarantee of the package, run again on every population that is made to break it, and the traps that published code of
this field has fallen into. One command makes this page:

```console
$ make validity
```

A *miss* is a certificate (or a statement) that contains a setting which truly breaks its limit; the truth is known, because the
data are simulated. The settings that may not be certified break their limit by a hair, so that every bit of the error that a
guarantee allows shows. The interval is the exact binomial one (Clopper and Pearson), 95 %. Where a guarantee uses up
its whole delta, 2.5 % of such intervals lie above delta by chance. A line *fails* when so many misses have a
probability below {level:g}. `python -m tests.validity --trials 3000` makes intervals narrower.
"""
_ABOUT_TRAPS = """Each was found in published code. *There*: the mechanism by itself, as small as it can be written, or the same
fault put into riskfront, which stops once it is clear. *Here*: riskfront on the same data. Rates may be .1 at most.
"""

_FAMILIES = {
    "p-values": "a p-value on losses whose risk is exactly the limit; a miss is a p-value at or below the level",
    "procedures": "null p-values behind settings that hold for certain; a miss is a false rejection",
    "methods": "`calibrate` with every method on draws from a population; a miss is any certified setting that breaks a limit",
    "doors": "each public function, and each kind of limit, on a hard null",
}


def page(lines: Sequence[Measured], fallen: Sequence[Fell], trials: int, seconds: float) -> str:
    failing = sum(line.fails for line in lines)
    verdict = "None fails." if not failing else f"**{failing} fail.**"
    parts = [
        _HEAD.format(level=LEVEL),
        _made_by(lines, trials, seconds, verdict),
        "## In short\n",
        _in_short(lines, fallen),
        "## Every guarantee\n",
        "The highest of many rates is high by chance, too; what decides is every line by itself, at the end of the page.\n",
        '??? note "One row for each guarantee"\n',
        _indented(_summary(lines)),
        "## Traps of published code\n",
        _ABOUT_TRAPS,
        f'??? note "{len(fallen)} traps"\n',
        _indented(_traps(fallen)),
        "## Every line\n",
    ]
    for family, words in _FAMILIES.items():
        own = [line for line in lines if line.family == family]
        if own:
            parts += [
                f'??? note "{family}: {len(own)} lines"\n',
                f"    {words.capitalize()}.\n",
                _indented(_table(own)),
            ]
    return "\n".join(parts)


def _in_short(lines: Sequence[Measured], fallen: Sequence[Fell]) -> str:
    """One row for each family."""
    rows = [
        "| what | guarantees | populations and levels | trials | lines that fail |",
        "| --- | --- | --- | --- | --- |",
    ]
    for family in _FAMILIES:
        own = [line for line in lines if line.family == family]
        counts = (len({line.guarantee for line in own}), len(own), sum(line.trials for line in own))
        rows.append(f"| {family} | " + " | ".join(f"{n:,}" for n in counts) + f" | {sum(line.fails for line in own)} |")
    right = sum(fell.as_it_should for fell in fallen)
    rows.append(f"| traps of published code | {len(fallen)} | | | {len(fallen) - right} |")
    return "\n".join(rows) + "\n"


def _made_by(lines: Sequence[Measured], trials: int, seconds: float, verdict: str) -> str:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        f"riskfront {rf.__version__}, Python {python}, `--trials {trials}`: {len(lines)} lines, "
        f"{sum(line.trials for line in lines):,} trials, {seconds / 60:.0f} minutes of one core. {verdict}\n"
    )


def _summary(lines: Sequence[Measured]) -> str:
    """One row for each guarantee and level: all its populations together, and the one on which it was missed most often."""
    rows = [
        "| guarantee | populations | rate over all | 95 % interval | trials | highest rate | on | allowed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for family, guarantee, allowed in dict.fromkeys((line.family, line.guarantee, line.allowed) for line in lines):
        own = [line for line in lines if (line.family, line.guarantee, line.allowed) == (family, guarantee, allowed)]
        misses, trials = sum(line.misses for line in own), sum(line.trials for line in own)
        (low, high), worst = (
            Measured(family, guarantee, "", misses, trials).interval,
            max(own, key=lambda line: line.rate),
        )
        rows.append(
            f"| {family}: {guarantee} | {len(own)} | {_number(misses / trials)} | {_number(low)} to {_number(high)} "
            f"| {trials:,} | {_number(worst.rate)} of {worst.trials:,} | {worst.population} | {allowed:g} |"
        )
    return "\n".join(rows) + "\n"


def _table(lines: Sequence[Measured]) -> str:
    rows = [
        "| guarantee | population | rate | trials | 95 % interval | allowed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        low, high = line.interval
        mark = " **fails**" if line.fails else ""
        rows.append(
            f"| {line.guarantee} | {line.population} | {_number(line.rate)}{mark} | {line.trials:,} "
            f"| {_number(low)} to {_number(high)} | {line.allowed:g} |"
        )
    return "\n".join(rows) + "\n"


def _traps(fallen: Sequence[Fell]) -> str:
    rows = ["| trap | on | there | here |", "| --- | --- | --- | --- |"]
    rows += [f"| {fell.name} | {fell.happens} | {fell.there} | {fell.here} |" for fell in fallen]
    return "\n".join(rows) + "\n"


def _indented(table: str) -> str:
    return "".join(f"    {line}\n" for line in table.splitlines())


def _number(value: float) -> str:
    return f"{value:.3f}"
