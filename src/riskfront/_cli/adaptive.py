"""Commands of the adaptive Transformer: accelerate does everything, the others one step of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import riskfront as rf
from riskfront._cli import options
from riskfront._cli.adaptive_options import GridOptions, RowOptions, SearchOptions, TrainingOptions
from riskfront._cli.deciding import ranges, show_frontier
from riskfront._cli.output import command_line, say, say_dimly, say_written, show
from riskfront._reporting.terminal import make_console, show_grid
from riskfront._support.files import write_text
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront.transformers import AdaptiveClassifier, CascadeClassifier, Plan
    from riskfront.transformers._data.texts import TextParts

Model = Annotated[
    str,
    typer.Option(
        help="Folder or hub name of an encoder: BERT, RoBERTa, ELECTRA, DistilBERT, MPNet, ALBERT, DeBERTa-v3, "
        "ModernBERT and their kin."
    ),
]
Data = Annotated[str, typer.Option(help="Parquet or CSV with text (or text_a, text_b), label and perhaps split.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for everything that is made; go on in it later.")]
TrainRows = Annotated[int, typer.Option(min=0, help="Rows to train on; 0 for all.")]
UnlabelledTexts = Annotated[
    str,
    typer.Option(
        "--unlabelled",
        help="Parquet or CSV with texts without labels: whether settings agree with the full model on them sharpens the test.",
    ),
]
Decide = Annotated[
    bool,
    typer.Option(
        "--decide",
        help="Limits are ranges, as 'accuracy_drop <= 0.01..0.10': a page to choose them on after looking; then: "
        "riskfront choose FOLDER.",
    ),
]
Device = Annotated[str, typer.Option(help="Such as cuda; by default CUDA where there is one.")]

steps = typer.Typer(help="The steps of accelerate, one by one.", no_args_is_help=True)


@options.grouped
def accelerate(
    model: Model,
    data: Data,
    out: Folder,
    wanted: SearchOptions,
    how: TrainingOptions,
    thresholds: GridOptions,
    rows: RowOptions,
    seed: options.Seed = 0,
    train_rows: TrainRows = 0,
    small: Annotated[
        str, typer.Option(help="A smaller encoder that answers first; the other one reads the texts it is not sure of.")
    ] = "",
    unlabelled: UnlabelledTexts = "",
    decide: Decide = False,
    device: Device = "",
    as_json: options.Json = False,
) -> int:
    """Make a text classifier faster with a bound on what it loses: train, trace, certify."""
    problem, values = _ranges(wanted, decide, small, unlabelled)
    from riskfront.transformers import Plan, accelerate_cascade, accelerate_frontier
    from riskfront.transformers import accelerate as accelerate_model

    grid = thresholds.grid()
    plan = Plan(training=how.training(seed), grid=grid, seed=seed, **rows.plan(train_rows), **wanted.strategy())
    told = {"device": device or None, **_told(as_json)}
    found: Any
    if small and unlabelled:
        raise InvalidInputError(
            "unlabelled texts help to certify one encoder; a cascade, with --small, is tested by labels."
        )
    with resumable(out):
        if decide:
            frontier = accelerate_frontier(model, data, problem, values, out, plan, **told)
            return _decided(frontier, out, as_json)
        if small:
            found = accelerate_cascade(small, model, data, problem, out, plan, **told)
        else:
            found = accelerate_model(model, data, problem, out, plan, unlabelled=unlabelled or None, **told)
    return _shown(found, out, as_json)


@steps.command()
@options.grouped
def train(
    model: Model,
    data: Data,
    out: Folder,
    how: TrainingOptions,
    rows: RowOptions,
    seed: options.Seed = 0,
    train_rows: TrainRows = 0,
    device: Device = "",
) -> int:
    """Fine-tune, score heads, train exit heads and token predictors; finished steps are kept."""
    from riskfront.transformers import Plan
    from riskfront.transformers._accelerate import read_parts, train_parts

    plan = Plan(training=how.training(seed), seed=seed, **rows.plan(train_rows))
    with resumable(out):
        trained = train_parts(model, read_parts(data, plan), out, plan, device=device or None, say=say_dimly)
        trained.save_pretrained(out)
    say_written([out])
    return 0


@steps.command()
@options.grouped
def trace(
    folder: Annotated[Path, typer.Argument(help="What train or accelerate wrote.")],
    data: Data,
    store: Annotated[str, typer.Option(help="Store to fill; then: riskfront calibrate STORE.")],
    thresholds: GridOptions,
    rows: RowOptions,
    seed: options.Seed = 0,
    device: Device = "",
) -> int:
    """Trace every setting of a trained classifier on the calibration rows, into a store of losses."""
    from riskfront._data.stores.loss_store import write_notes
    from riskfront.transformers import Plan
    from riskfront.transformers._accelerate import thresholds_of, trace_of
    from riskfront.transformers._data.known_texts import fresh_texts
    from riskfront.transformers._data.texts import read_texts

    plan = Plan(grid=thresholds.grid(), seed=seed, **rows.plan())
    trained, parts = _loaded(folder, data, plan, device)
    fresh = fresh_texts(parts, trained.learnt, leave_out=plan.leave_out_repeats)
    with resumable(store):
        space = thresholds_of(trained, parts.validation, plan).space
        found = trace_of(trained, fresh.texts, folder, plan)
        write_notes(store, fresh.notes)
        table = found.fill(store, space.grid(1))
    total = len(read_texts(data))
    if len(found) < total:
        say(
            f"{len(found):,} of {total:,} rows are calibration rows; the others are for learning, by the column split or by "
            f"their content. To test the certified setting on all of them: riskfront check {folder} {data}"
        )
    for note in fresh.notes:
        say(f"Note: {note}")
    say(f"{table.n_configs:,} settings x {table.n_examples:,} texts in {store}")
    return 0


@steps.command()
@options.grouped
def certify(
    folder: Annotated[Path, typer.Argument(help="What train or accelerate wrote; the certificate goes into it.")],
    data: Data,
    wanted: SearchOptions,
    thresholds: GridOptions,
    rows: RowOptions,
    seed: options.Seed = 0,
    unlabelled: UnlabelledTexts = "",
    decide: Decide = False,
    device: Device = "",
    as_json: options.Json = False,
) -> int:
    """Find and certify the thresholds of a trained classifier."""
    problem, values = _ranges(wanted, decide, "", unlabelled)
    from riskfront.transformers import Plan
    from riskfront.transformers._accelerate import certify as certify_thresholds
    from riskfront.transformers._accelerate import check_problem
    from riskfront.transformers._deciding import decide as certify_together

    grid = thresholds.grid()
    check_problem(problem, grid, unlabelled=bool(unlabelled))
    plan = Plan(grid=grid, seed=seed, **rows.plan(), **wanted.strategy())
    trained, parts = _loaded(folder, data, plan, device)
    with resumable(folder):
        if decide:
            frontier = certify_together(trained, parts, problem, values, folder, plan, **_told(as_json))
            return _decided(frontier, folder, as_json)
        found = certify_thresholds(
            trained, parts, problem, folder, plan, unlabelled=unlabelled or None, **_told(as_json)
        )
    return _shown(found, folder, as_json)


@steps.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="What accelerate wrote.")],
    data: Annotated[str, typer.Option(help="Parquet or CSV with text, or text_a and text_b.")],
    out: options.Out = None,
    missing: Annotated[
        str, typer.Option(help="What becomes of empty texts: raise (an error), or abstain and answer the others.")
    ] = "raise",
    device: Device = "",
) -> int:
    """Classify texts at the certified setting, into a CSV file or onto the screen."""
    from riskfront.transformers._cascade.cascade_classifier import load_accelerated
    from riskfront.transformers._data.texts import read_texts

    options.must_be_writable(out, inputs=[Path(data)])
    frame = read_texts(data)
    classifier = load_accelerated(folder, device=device or None)
    if {"text_a", "text_b"} <= set(frame.columns):
        texts: Any = list(zip(frame["text_a"], frame["text_b"], strict=True))
    elif "text" in frame.columns:
        texts = frame["text"].tolist()
    else:
        raise InvalidInputError(f"data must have a column 'text', or 'text_a' and 'text_b'; got {list(frame.columns)}.")
    answers = frame.assign(prediction=classifier.predict(texts, missing=missing))
    if out is None:
        print(answers[["prediction"]].to_csv(index=False), end="")
    else:
        write_text(out, answers.to_csv(index=False))
    return 0


def _loaded(folder: Path, data: str, plan: Plan, device: str) -> tuple[AdaptiveClassifier, TextParts]:
    from riskfront.transformers import AdaptiveClassifier
    from riskfront.transformers._accelerate import declared, read_parts

    parts = read_parts(data, plan, learning=False)
    found = AdaptiveClassifier.from_pretrained(folder, device=device or None)
    if set(found.classes) != set(parts.train.classes):
        raise InvalidInputError(
            f"the data must have the classes of the model, {list(found.classes)}; got {list(parts.train.classes)}."
        )
    learnt = declared(found.learnt, plan)
    return replace(found, certificate=None, setting=None, calibrated=None, learnt=learnt), parts


def _ranges(
    wanted: SearchOptions, decide: bool, small: str, unlabelled: str
) -> tuple[rf.Problem, dict[str, list[float]]]:
    """The problem, and with --decide the values of the limits that are ranges."""
    if not decide:
        if any(".." in text for text in wanted.limit):
            raise InvalidInputError("a limit that is a range is chosen after looking: add --decide.")
        return wanted.problem(wanted.p_value), {}
    for name, given in (("--small", small), ("--unlabelled", unlabelled), ("--choose", wanted.choose)):
        if given:
            raise InvalidInputError(
                f"--decide must be given without {name}; got {given!r}. It certifies ranges of limits of one encoder, by "
                "labelled texts, and the choice comes afterwards: riskfront choose FOLDER."
            )
    return ranges(wanted, wanted.p_value)


def _decided(frontier: rf.Frontier, folder: Path, as_json: bool) -> int:
    from riskfront.transformers._folder import DECIDE_PAGE, FRONTIER

    page = folder / DECIDE_PAGE
    rf.write_decide_page(frontier, page, file=str(folder), command=command_line())
    return show_frontier(frontier, as_json, [folder / FRONTIER, page])


def _shown(found: AdaptiveClassifier | CascadeClassifier, folder: Path, as_json: bool) -> int:
    if found.certificate is None:
        return 1
    from riskfront.transformers._speed_up import Gain

    gain = Gain.load(folder)
    if as_json:
        more = {"gain": None if gain is None else asdict(gain), **_beside(found.certificate, folder)}
        print(json.dumps({**found.certificate.to_dict(), **more}, allow_nan=False))
    else:
        if gain is not None:
            say(gain.sentence(found.certificate.problem, found.certificate.delta_of_all_looks), "bold")
        show(found.certificate, as_json, written=[folder])
        _show_alternatives(folder)
        _show_what_each_brought(found.certificate, folder)
    return 0 if found.certificate and found.certificate.guaranteed else 1


def _show_alternatives(folder: Path) -> None:
    """The table "What else you could do"; a sentence where something is better than what was certified."""
    from riskfront.transformers._speed_up import better_than_certified, load_alternatives

    rows = load_alternatives(folder)
    if not rows:
        return
    header = ["", "accuracy", "texts", "ms, one text", "ms a text, 32"]
    cells = [
        [row.name, f"{row.accuracy:.3f}", f"{row.texts:,}", f"{row.alone:.2f}", f"{row.together:.2f}"] for row in rows
    ]
    show_grid(
        make_console(), "\nWhat else you could do (measured on the calibration texts, not certified)", header, cells
    )
    for name in better_than_certified(rows):
        say(f"{name}: more accurate and faster here than the certified setting.")


def _beside(certificate: rf.Certificate, folder: Path) -> dict[str, Any]:
    """For machines: the alternatives, and what each dimension brought."""
    from riskfront.transformers._report import what_each_brought
    from riskfront.transformers._speed_up import load_alternatives

    rows, parts = load_alternatives(folder), what_each_brought(certificate)
    return {"alternatives": [asdict(row) for row in rows], "brought": [asdict(part) for part in parts]}


def _show_what_each_brought(certificate: rf.Certificate, folder: Path) -> None:
    """A sentence each: dimensions, and what more training texts would bring."""
    from riskfront.transformers._folder import PAGE
    from riskfront.transformers._report import ELSE, sections, write_page

    if not certificate:
        return
    write_page(folder, certificate)
    for section in sections(folder, certificate):
        for note in section.notes if section.title != ELSE else ():  # that table was shown
            say(note)
    say(f"All of it on one page: {folder / PAGE}", "dim")


def _told(as_json: bool) -> dict[str, Any]:
    """Whether to say what is being done: not where machines read."""
    return {"say": lambda line: None, "progress": False} if as_json else {"say": say_dimly}


class _Ended(BaseException):
    """What SIGTERM becomes, so that everything on the way out is closed and removed as after Ctrl-C."""


@contextmanager
def resumable(place: str | os.PathLike[str]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command in a sentence that says where its work is; status 130 and 143."""
    with _sigterm_is_raised():
        try:
            yield
        except (KeyboardInterrupt, _Ended) as stop:
            said = f"stopped. What is done is in '{os.fspath(place)}': the same command goes on from there."
            print(f"riskfront: {said}", file=sys.stderr)
            raise SystemExit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None


@contextmanager
def _sigterm_is_raised() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
