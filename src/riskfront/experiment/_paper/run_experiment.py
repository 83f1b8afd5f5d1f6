"""Run one experiment on all tables of a folder: a CSV file of all results, and a figure for each table."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._data.table import LossTable
from riskfront._support.files import write_text, written_whole
from riskfront._support.values import known
from riskfront.errors import InvalidInputError, StoreError
from riskfront.experiment._paper import chosen_sets, clouds, figures, optimizers, trials
from riskfront.experiment._paper.descriptions import EXPERIMENTS, Experiment
from riskfront.experiment._paper.figures import draw_trials
from riskfront.experiment._paper.stored_tables import (
    FromCorner,
    StoredTable,
    find_tables,
    with_abstaining,
    with_fewer_exits,
)
from riskfront.methods import Method


@dataclass(frozen=True)
class Kind:
    """How an experiment is measured, summed up and drawn."""

    measure: Callable[..., pd.DataFrame]
    summary: Callable[[Experiment, LossTable, pd.DataFrame], pd.DataFrame]
    draw: Callable[[Experiment, str, pd.DataFrame], Any]


KINDS = {
    "trials": Kind(trials.measure, trials.summary, draw_trials),
    "chosen-sets": Kind(chosen_sets.measure, chosen_sets.summary, figures.draw_chosen_sets),
    "optimizers": Kind(optimizers.measure, optimizers.summary, figures.draw_optimizers),
    "clouds": Kind(clouds.measure, clouds.summary, figures.draw_clouds),
}


def prepared(experiment: Experiment, stored: StoredTable) -> LossTable:
    """The table as the experiment wants it."""
    table = stored.load()
    if not experiment.lambdas:
        return table
    return with_abstaining(with_fewer_exits(table, experiment.exits), experiment.lambdas)


def save(figure: Any, path: Path) -> None:
    """A PNG file of at most 256 colours, which is small enough to be kept beside the numbers."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    few = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, format="png", optimize=True)


def reproduce(
    name: str,
    tables: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    methods: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """The summary of an experiment on every table found, which is also written to ``out``, with a figure for each table.

    Args:
        name: of the experiment.
        tables: folder of loss tables; of logs for router and quantisation.
        out: folder for results; it is made.
        methods: of the user's, which join the paper's.
        trials: instead of the description's.
        jobs: processes that share repeated trials.
    """
    experiment = EXPERIMENTS[known(name, EXPERIMENTS, "experiment")]
    _check_own(experiment, methods)
    target, summaries = _made_folder(out), list[pd.DataFrame]()
    unfinished = target / f"{name}.unfinished.csv"
    for stored in find_tables(tables, experiment.data):
        say(f"{name} on {stored.title} ...")
        summaries.append(on_one_table(experiment, stored, target, methods=methods, trials=trials, seed=seed, jobs=jobs))
        found = pd.concat(summaries, ignore_index=True)
        write_text(unfinished, as_csv(found))
    os.replace(unfinished, target / f"{name}.csv")  # what an earlier run found stays until all of it is found again
    return found


def _check_own(experiment: Experiment, methods: Sequence[Method]) -> None:
    """Whether methods of the user's can take part, and under names of their own."""
    if methods and experiment.kind in ("optimizers", "clouds"):
        raise InvalidInputError(
            f"no method takes part in '{experiment.name}'; got {[method.name for method in methods]}."
        )
    taken = {
        (of.method if isinstance(of, FromCorner) else of).name for line in experiment.lineups for of in line.methods
    }
    for method in methods:
        if method.name in taken:
            raise InvalidInputError(f"a method '{method.name}' takes part already; give yours another name.")
        taken.add(method.name)


def _made_folder(out: str | os.PathLike[str]) -> Path:
    """The folder of results, before anything is measured."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"'{os.fspath(out)}' must be a folder that can be made and written to; {error.strerror}."
        ) from error
    return Path(out)


def on_one_table(
    experiment: Experiment,
    stored: StoredTable,
    out: Path,
    *,
    methods: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> pd.DataFrame:
    """The summary on one table; its figure is written."""
    kind, table = KINDS[experiment.kind], prepared(experiment, stored)
    shared = {"jobs": jobs} if experiment.kind == "trials" else {}
    results = kind.measure(experiment, stored.data, table, more=methods, trials=trials, seed=seed, **shared)
    means = kind.summary(experiment, table, results)
    figure = kind.draw(experiment, f"{stored.title}\n{experiment.question}", results)
    out.mkdir(parents=True, exist_ok=True)
    with written_whole(out / f"{experiment.name}.{stored.file_name}.png") as path:
        save(figure, path)
    about = {"data": stored.data, "variant": stored.variant, "exits": stored.exits}
    size = {"settings": table.n_configs, "rows": table.n_examples}
    return pd.concat([pd.DataFrame([about | size] * len(means)), means], axis=1)


def as_csv(summaries: pd.DataFrame) -> str:
    return summaries.to_csv(index=False, float_format="%.6g")
