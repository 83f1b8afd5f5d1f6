"""Commands of the paper's experiments: from texts to loss tables, from loss tables to figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from riskfront._cli import options
from riskfront._cli.adaptive import Data, Device, Model, resumable
from riskfront._cli.output import say, say_dimly, say_written
from riskfront._reporting.terminal import make_console
from riskfront.errors import InvalidInputError, RiskfrontError
from riskfront.experiment._paper.descriptions import EXPERIMENTS
from riskfront.methods import Method
from riskfront.methods._plan import check_method

if TYPE_CHECKING:
    from riskfront.transformers._experiment_tables import TablePlan

commands = typer.Typer(help="The paper's experiments, one command each.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class TablesOptions:
    """How a model is trained, and which settings are traced."""

    name: Annotated[str, typer.Option(help="Name of the data set; by default that of its file.")] = ""
    variant: Annotated[
        str, typer.Option(help="Name of this training in file names; by default paper, or early with --early-layers.")
    ] = ""
    exits: Annotated[str, typer.Option(help="What exits read, a table each: pooled, cls as in the paper.")] = (
        "pooled,cls"
    )
    train_rows: Annotated[int, typer.Option(min=0, help="Rows to train on; 0 for all.")] = 0
    validation_rows: Annotated[int, typer.Option(min=1, help="Rows to score heads and thresholds on.")] = 300
    test_rows: Annotated[int, typer.Option(min=0, help="Rows to trace; 0 for all.")] = 0
    test_split: Annotated[
        str, typer.Option(help="Value of the column split in rows to trace; by default all but train.")
    ] = ""
    max_length: options.MaxLength = 128
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of fine-tuning.")] = 1
    batch_size: Annotated[int, typer.Option(min=1, help="Texts in a step of fine-tuning.")] = 32
    learning_rate: Annotated[float, typer.Option(help="Learning rate of fine-tuning.")] = 5e-5
    early_layers: Annotated[
        float, typer.Option(min=0, help="Weight on early layers in fine-tuning; 0 is the paper's training.")
    ] = 0.0
    bf16: options.Bf16 = False
    again: options.Again = False
    exit_rows: Annotated[int, typer.Option(min=1, help="Rows that exit heads learn from.")] = 2000
    token_rows: Annotated[int, typer.Option(min=1, help="Rows that token predictors learn from.")] = 2000
    head_shares: Annotated[str, typer.Option(help="Shares of attention heads below a threshold.")] = "0,0.25"
    token_shares: Annotated[str, typer.Option(help="Shares of tokens' scores below a threshold.")] = (
        "0,0.3,0.5,0.65,0.8"
    )
    exit_thresholds: Annotated[int, typer.Option(min=1, help="Exit thresholds; they cost no pass.")] = 120
    learnt_from: options.LearntFrom = field(default_factory=list)

    def plan(self, data: str, seed: int) -> TablePlan:
        from riskfront.transformers import FineTuning, HeadTraining, Plan, Rows, Training
        from riskfront.transformers._experiment_tables import TablePlan

        training = Training(
            FineTuning(
                self.epochs, self.batch_size, self.learning_rate, early_layers=self.early_layers, bf16=self.bf16
            ),
            again=self.again,
            heads=HeadTraining(epochs=20, rows=self.exit_rows, token_rows=self.token_rows),
            max_length=self.max_length,
            seed=seed,
        )
        rows = Rows(self.train_rows or None, self.validation_rows, self.test_rows or None)
        return TablePlan(
            self.name or Path(data).stem,
            self.variant or ("early" if self.early_layers else "paper"),
            Plan(training=training, rows=rows, seed=seed, learnt_from=tuple(self.learnt_from)),
            exits=tuple(options.parse_names(self.exits)),
            head_shares=_shares(self.head_shares, "--head-shares"),
            token_shares=_shares(self.token_shares, "--token-shares"),
            n_exits=self.exit_thresholds,
            test_split=self.test_split,
        )


@commands.command()
@options.grouped
def tables(
    model: Model,
    data: Data,
    work: Annotated[Path, typer.Option(help="Folder for everything that is made; tables come into its folder tables.")],
    how: TablesOptions,
    seed: options.Seed = 0,
    device: Device = "",
) -> int:
    """Make the loss tables of one data set: train, trace, store. Stop it at any moment: the same command goes on."""
    from riskfront.transformers._experiment_tables import make_tables

    plan = how.plan(data, seed)
    with resumable(work):
        made = make_tables(model, data, work, plan, device=device or None, say=say_dimly)
    say_written(made)
    return 0


@commands.command("list")
def list_() -> int:
    """The experiments, what they ask, and where they are in the paper."""
    from rich.table import Table

    shown = Table(box=None, header_style="bold")
    shown.add_column("name", no_wrap=True)
    shown.add_column("what is asked, on which data, and where it is in the paper")
    for experiment in EXPERIMENTS.values():
        data = ", ".join(experiment.data)
        shown.add_row(experiment.name, f"{experiment.question}; {data} ({experiment.paper})")
    make_console().print(shown)
    return 0


def _command(name: str) -> Callable[..., int]:
    def experiment(
        tables: Annotated[
            Path,
            typer.Option(
                help="Folder of loss tables, as reproduce tables makes them; of logs for router and quantisation."
            ),
        ],
        out: Annotated[Path, typer.Option("--out", help="Folder for a CSV file and figures (PNG).")],
        methods: Annotated[
            list[str],
            typer.Option(help="A method of your own, as my_module:MyMethod, which joins the paper's; repeat."),
        ] = [],  # noqa: B006
        trials: Annotated[
            int, typer.Option(min=0, help="Draws of calibration examples; 0 for as many as the description says.")
        ] = 0,
        jobs: Annotated[int, typer.Option(min=1, help="Processes that share the trials.")] = 1,
        seed: Annotated[int, typer.Option("--seed", help="Seed of the draws of calibration examples.")] = 0,
    ) -> int:
        from riskfront.experiment._paper.run_experiment import reproduce

        own = [load_method(text) for text in methods]
        found = reproduce(name, tables, out, methods=own, trials=trials or None, seed=seed, jobs=jobs, say=say_dimly)
        say(f"{len(found):,} rows of results and figures in {out}")
        return 0

    described = EXPERIMENTS[name]
    experiment.__doc__ = f"{described.question[0].upper()}{described.question[1:]} ({described.paper})."
    return experiment


for _name in EXPERIMENTS:
    commands.command(_name)(_command(_name))


def load_method(text: str) -> Method:
    """A method from "my_module:MyMethod": a class, which is called, or an object."""
    module, colon, attribute = text.partition(":")
    if not colon:
        raise InvalidInputError(f"a method must be named as my_module:MyMethod; got {text!r}.")
    if "" not in sys.path:  # as python -m does: modules of the folder one works in
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute)
        made = found() if isinstance(found, type) else found
    except RiskfrontError:
        raise
    except Exception as error:  # whatever the user's module raises
        raise InvalidInputError(
            f"'{text}' must be a method that can be imported and made without arguments; it cannot "
            f"({type(error).__name__}: {error})."
        ) from error
    check_method(made, f"'{text}'")
    return cast("Method", made)


def _shares(text: str, option: str) -> tuple[float, ...]:
    return tuple(sorted(set(options.parse_numbers(text, option))))
