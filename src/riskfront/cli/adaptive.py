"""Commands of the adaptive Transformer: accelerate does everything, the others one step of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import riskfront as rf
from riskfront.cli.adaptive_options import GridOptions, SearchOptions, TrainingOptions
from riskfront.cli.groups import grouped
from riskfront.cli.options import Json, Out, Seed, must_be_writable, show
from riskfront.errors import InvalidInputError
from riskfront.reporting.terminal import make_console
from riskfront.runtime.files import write_text

if TYPE_CHECKING:
    from riskfront.transformers import Plan, TextParts, Trained

Model = Annotated[str, typer.Option(help="Folder or hub name of an encoder of the BERT class.")]
Data = Annotated[str, typer.Option(help="Parquet or CSV with text (or text_a, text_b), label and perhaps split.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for everything that is made; go on in it later.")]
TrainRows = Annotated[int, typer.Option(min=0, help="Rows to train on; 0 for all.")]
ValidationRows = Annotated[int, typer.Option(min=1, help="Rows to score heads and thresholds on.")]
CalibrationRows = Annotated[int, typer.Option(min=0, help="Rows to calibrate on; 0 for all.")]
Device = Annotated[str, typer.Option(help="Such as cuda; by default CUDA where there is one.")]

steps = typer.Typer(help="The steps of accelerate, one by one.", no_args_is_help=True)


@grouped
def accelerate(
    model: Model,
    data: Data,
    out: Folder,
    wanted: SearchOptions,
    how: TrainingOptions,
    thresholds: GridOptions,
    seed: Seed = 0,
    train_rows: TrainRows = 0,
    validation_rows: ValidationRows = 1000,
    calibration_rows: CalibrationRows = 0,
    device: Device = "",
    as_json: Json = False,
) -> int:
    """Make a text classifier faster with a bound on what it loses: train, trace, certify."""
    problem = wanted.problem(wanted.p_value)
    from riskfront.transformers.acceleration import Plan, check_problem

    grid = thresholds.grid()
    check_problem(problem, grid)
    rows = _rows(train_rows, validation_rows, calibration_rows)
    plan = Plan(training=how.training(seed), rows=rows, grid=grid, seed=seed, **wanted.strategy())
    trained, parts = _trained(model, data, out, plan, device, quiet=as_json)
    return _certified(trained, parts, problem, out, plan, as_json)


@steps.command()
@grouped
def train(
    model: Model,
    data: Data,
    out: Folder,
    how: TrainingOptions,
    seed: Seed = 0,
    train_rows: TrainRows = 0,
    validation_rows: ValidationRows = 1000,
    device: Device = "",
) -> int:
    """Fine-tune, score heads, train exit heads and token predictors; finished steps are kept."""
    from riskfront.transformers import AdaptiveClassifier, Plan

    plan = Plan(training=how.training(seed), rows=_rows(train_rows, validation_rows, 0), seed=seed)
    trained, _ = _trained(model, data, out, plan, device, quiet=False)
    AdaptiveClassifier(trained.network, trained.tokenizer, trained.classes, trained.max_length).save_pretrained(out)
    make_console().print(f"Wrote {out}", markup=False, style="dim")
    return 0


@steps.command()
@grouped
def trace(
    folder: Annotated[Path, typer.Argument(help="What train or accelerate wrote.")],
    data: Data,
    store: Annotated[str, typer.Option(help="Store to fill; then: riskfront calibrate STORE.")],
    thresholds: GridOptions,
    seed: Seed = 0,
    validation_rows: ValidationRows = 1000,
    calibration_rows: CalibrationRows = 0,
    device: Device = "",
) -> int:
    """Trace every setting of a trained classifier on the calibration rows, into a store of losses."""
    from riskfront.transformers import Plan
    from riskfront.transformers.acceleration import thresholds_of, trace_of

    plan = Plan(rows=_rows(0, validation_rows, calibration_rows), grid=thresholds.grid(), seed=seed)
    trained, parts = _loaded(folder, data, plan, device)
    space = thresholds_of(trained, parts.validation, plan).space
    found = trace_of(trained, parts.calibration, folder, plan)
    table = found.fill(store, space.grid(1))
    make_console().print(f"{table.n_configs:,} settings x {table.n_examples:,} texts in {store}", markup=False)
    return 0


@steps.command()
@grouped
def certify(
    folder: Annotated[Path, typer.Argument(help="What train or accelerate wrote; the certificate goes into it.")],
    data: Data,
    wanted: SearchOptions,
    thresholds: GridOptions,
    seed: Seed = 0,
    validation_rows: ValidationRows = 1000,
    calibration_rows: CalibrationRows = 0,
    device: Device = "",
    as_json: Json = False,
) -> int:
    """Find and certify the thresholds of a trained classifier."""
    problem = wanted.problem(wanted.p_value)
    from riskfront.transformers.acceleration import Plan, check_problem

    grid = thresholds.grid()
    check_problem(problem, grid)
    rows = _rows(0, validation_rows, calibration_rows)
    plan = Plan(rows=rows, grid=grid, seed=seed, **wanted.strategy())
    trained, parts = _loaded(folder, data, plan, device)
    return _certified(trained, parts, problem, folder, plan, as_json)


@steps.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="What accelerate wrote.")],
    data: Annotated[str, typer.Option(help="Parquet or CSV with text, or text_a and text_b.")],
    out: Out = None,
    device: Device = "",
) -> int:
    """Classify texts at the certified setting, into a CSV file or onto the screen."""
    from riskfront.transformers import AdaptiveClassifier, read_texts

    must_be_writable(out, inputs=[Path(data)])
    frame = read_texts(data)
    classifier = AdaptiveClassifier.from_pretrained(folder, device=device or None)
    if {"text_a", "text_b"} <= set(frame.columns):
        texts: Any = list(zip(frame["text_a"], frame["text_b"], strict=True))
    elif "text" in frame.columns:
        texts = frame["text"].tolist()
    else:
        raise InvalidInputError(f"data must have a column 'text', or 'text_a' and 'text_b'; got {list(frame.columns)}.")
    answers = frame.assign(prediction=classifier.predict(texts))
    if out is None:
        print(answers[["prediction"]].to_csv(index=False), end="")
    else:
        write_text(out, answers.to_csv(index=False))
    return 0


def _rows(train: int, validation: int, calibration: int) -> Any:
    from riskfront.transformers import Rows

    return Rows(train or None, validation, calibration or None)


def _trained(model: str, data: str, out: Path, plan: Plan, device: str, *, quiet: bool) -> tuple[Trained, TextParts]:
    from riskfront.transformers import read_parts
    from riskfront.transformers import train as train_steps
    from riskfront.transformers.acceleration import remember_split

    parts = read_parts(data, plan)
    say = _silent if quiet else _say
    progress = False if quiet else None
    folder = out / "training"
    trained = train_steps(model, parts, folder, plan.training, device=device or None, say=say, progress=progress)
    remember_split(out, plan)
    return trained, parts


def _loaded(folder: Path, data: str, plan: Plan, device: str) -> tuple[Trained, TextParts]:
    from riskfront.transformers import AdaptiveClassifier, Trained, read_parts, read_texts

    frame = read_texts(data)
    parts = read_parts(frame, plan)
    if "split" not in frame.columns:
        _check_seed(folder, plan.seed)
    found = AdaptiveClassifier.from_pretrained(folder, device=device or None)
    if set(found.classes) != set(parts.train.classes):
        raise InvalidInputError(
            f"the data must have the classes of the model, {list(found.classes)}; got {list(parts.train.classes)}."
        )
    return Trained(found.network, found.classes, found.tokenizer, found.max_length), parts


def _certified(trained: Trained, parts: TextParts, problem: rf.Problem, folder: Path, plan: Plan, as_json: bool) -> int:
    from riskfront.transformers.acceleration import certify as certify_step

    say = _silent if as_json else _say
    found = certify_step(trained, parts, problem, folder, plan, say=say, progress=False if as_json else None)
    if found.certificate is None:
        return 1
    show(found.certificate, as_json, written=[folder])
    return 0 if found.certificate and found.certificate.guaranteed else 1


def _check_seed(folder: Path, seed: int) -> None:
    """Another seed draws other rows: the model would be calibrated on what it learnt from, and the guarantee be void."""
    from riskfront.transformers.acceleration import SPLIT

    try:
        trained_with = json.loads((folder / SPLIT).read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if trained_with != seed:
        raise InvalidInputError(
            f"--seed must be that of training, {trained_with}, so that no row learnt from is used to calibrate; got {seed}."
        )


def _say(line: str) -> None:
    make_console().print(line, markup=False, style="dim")


def _silent(line: str) -> None:
    pass
