"""Options that several commands of the adaptive Transformer share, and what they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskfront._cli import options
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront.transformers import Grid, Training

#: the columns of a trace; named here too because help must not load torch
LOSSES = (
    "accuracy_drop",
    "accuracy_drop_clipped",
    "error",
    "relative_cost",
    "flops",
    "latency",
    "answered",
    "confidence",
)
LIMITED = tuple(name for name in LOSSES if name not in ("flops", "latency"))


@dataclass(frozen=True, slots=True)
class SearchOptions(options.ProblemOptions):
    """What the thresholds must keep, and how they are looked for."""

    limit: Annotated[
        list[str],
        typer.Option(
            "--limit",
            help="'accuracy_drop <= 0.05', 'error <= 0.15 per label', 'error <= 0.02 given answered'. Losses: "
            f"{', '.join(LIMITED)}.",
        ),
    ]
    minimize: Annotated[
        list[str], typer.Option(help=f"A free objective; repeat or separate by commas. Losses: {', '.join(LOSSES)}.")
    ] = field(default_factory=lambda: ["flops"])
    p_value: options.PValue = "auto"
    method: options.PlanningMethodName = "pareto-testing"
    choose: options.ChooseOption = ""
    search: Annotated[str, typer.Option(help="grid, random, optuna, parego or guided.")] = "grid"
    budget: Annotated[int, typer.Option(min=1, help="Settings to try, if the search is not the grid.")] = 200

    def strategy(self) -> dict[str, Any]:
        return {"method": self.method, "search": self.search, "budget": self.budget, "choose": self.choose}


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How a model is fine-tuned and gets its heads."""

    epochs: Annotated[int, typer.Option(min=1, help="Of fine-tuning.")] = 1
    again: options.Again = False
    learning_rate: Annotated[float, typer.Option(help="Of fine-tuning.")] = 5e-5
    early_layers: Annotated[
        float, typer.Option(min=0, help="Weight on early layers in fine-tuning: exits get better.")
    ] = 0.0
    bf16: options.Bf16 = False
    max_length: options.MaxLength = 128
    token_rows: Annotated[int, typer.Option(min=1, help="Rows that token predictors learn from.")] = 4000
    exits: Annotated[str, typer.Option(help="What exits read: pooled, or cls as in the paper.")] = "pooled"
    exit_epochs: Annotated[int, typer.Option(min=0, help="Of training exits; 0 for enough, more for few rows.")] = 0
    word_exit: Annotated[
        bool, typer.Option("--word-exit", help="Try an exit on words before the embedding, if it saves layers.")
    ] = False
    dtype: Annotated[
        str, typer.Option(help="Of the weights that are certified and answer: float32, bfloat16 or float16, for GPUs.")
    ] = "float32"

    def training(self, seed: int) -> Training:
        from riskfront.transformers import FineTuning, HeadTraining, Training

        return Training(
            FineTuning(self.epochs, learning_rate=self.learning_rate, early_layers=self.early_layers, bf16=self.bf16),
            again=self.again,
            heads=HeadTraining(epochs=self.exit_epochs or None, token_rows=self.token_rows),
            exits=self.exits,
            max_length=self.max_length,
            seed=seed,
            words=self.word_exit,
            dtype=self.dtype,
        )


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Which rows are used for what, and what happens to those that are not new to the model."""

    validation_rows: Annotated[int, typer.Option(min=1, help="Rows to score heads and thresholds on.")] = 1000
    calibration_rows: Annotated[int, typer.Option(min=0, help="Rows to calibrate on; 0 for all.")] = 0
    leave_out_repeats: Annotated[
        bool,
        typer.Option(
            "--leave-out-repeats",
            help="Go on without calibration rows whose text was learnt from or is that of another row. The guarantee then "
            "speaks of texts that were not seen in training.",
        ),
    ] = False
    learnt_from: options.LearntFrom = field(default_factory=list)

    def plan(self, train_rows: int = 0) -> dict[str, Any]:
        from riskfront.transformers import Rows

        rows = Rows(train_rows or None, self.validation_rows, self.calibration_rows or None)
        return {"rows": rows, "leave_out_repeats": self.leave_out_repeats, "learnt_from": tuple(self.learnt_from)}


@dataclass(frozen=True, slots=True)
class GridOptions:
    """How many thresholds of each kind there are."""

    head_thresholds: Annotated[int, typer.Option(min=1, help="Head thresholds; 1 for no head pruning.")] = 18
    token_thresholds: Annotated[int, typer.Option(min=1, help="Token thresholds; 1 for no token pruning.")] = 20
    exit_thresholds: Annotated[int, typer.Option(min=1, help="Exit thresholds; 1 for no early exit.")] = 120
    abstain: Annotated[
        str, typer.Option(help="Values of lambda, such as 0,0.8,0.9: no answer below that probability.")
    ] = "0"
    precision: Annotated[
        str,
        typer.Option(
            help="Precisions to choose from, such as float32,float16,int8; by default float32, and with --minimize latency "
            "all that run here."
        ),
    ] = ""
    depths: Annotated[
        int, typer.Option(min=1, help="Depths at which the model may be cut, all its layers included; 1 for no cut.")
    ] = 1

    def grid(self) -> Grid:
        from riskfront.transformers import Grid

        named = tuple(dict.fromkeys(part.strip() for part in self.precision.split(","))) if self.precision else None
        counts = (self.head_thresholds, self.token_thresholds, self.exit_thresholds)
        return Grid(*counts, _numbers(self.abstain), named, self.depths)


def _numbers(text: str) -> tuple[float, ...]:
    values = tuple(sorted(set(options.parse_numbers(text, "--abstain"))))
    if not values or not all(0 <= value <= 1 for value in values):
        raise InvalidInputError(f"--abstain must hold numbers from 0 to 1, such as 0,0.8,0.9; got {text!r}.")
    return values
