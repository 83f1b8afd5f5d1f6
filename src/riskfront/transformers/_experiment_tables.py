"""Loss tables of the adaptive Transformer for experiments: train, trace, store; whatever is done is not done again.

A pass through the encoder costs time, exits and abstaining cost none: so there are few head and token thresholds, many exit
thresholds, and both kinds of exits read the same passes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import save_file

from riskfront._data.table import LossTable
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError
from riskfront.transformers._accelerate import Plan, read_parts, train_parts
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._data.known_texts import fresh_texts
from riskfront.transformers._data.texts import TRAIN, TextParts, read_texts
from riskfront.transformers._exits import ExitHeads, Layout, check_kind
from riskfront.transformers._learning.exit_reading import read_for_exits
from riskfront.transformers._learning.head_training import fit_exit_heads
from riskfront.transformers._learning.steps import Steps
from riskfront.transformers._learning.training import loaded
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Thresholds, check_shares, thresholds_at_shares

ROWS_PER_FILE = 512  # rows of a pass between two files: a killed run loses at most so many
TABLES = "tables"
COLUMNS = ("accuracy_drop", "accuracy_drop_clipped", "error", "relative_cost", "flops", "confidence")


@dataclass(frozen=True)
class TablePlan:
    """What tables to make of one data set.

    Args:
        variant: of the training, such as "paper" or "early".
        plan: rows, training, seed, and what the model learnt from before; its grid is not used.
        exits: what exits read, each a table of its own: "pooled", "cls".
        token_shares: a threshold for each share of scores to lie below it, as `head_shares`; every pair costs a pass.
        test_split: rows to trace are marked with this in the column `split`; by default all that are not marked train.
    """

    name: str
    variant: str
    plan: Plan = field(default_factory=Plan)
    exits: Sequence[str] = ("pooled", "cls")
    head_shares: Sequence[float] = (0.0, 0.25)
    token_shares: Sequence[float] = (0.0, 0.3, 0.5, 0.65, 0.8)
    n_exits: int = 120
    test_split: str = ""

    def __post_init__(self) -> None:
        check_shares(self.head_shares, self.token_shares)  # now, not after an hour of training
        for kind in self.exits:
            check_kind(kind)
        if not self.exits or len(set(self.exits)) < len(self.exits):
            raise InvalidInputError(f"exits must name each kind once, and at least one; got {list(self.exits)}.")

    def file(self, work: Path, exits: str) -> Path:
        return work / TABLES / f"{self.name}.{self.variant}.{exits}.parquet"


def make_tables(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    work: str | os.PathLike[str],
    how: TablePlan,
    *,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> list[Path]:
    """The files of all tables, one for each kind of exits; the same call later goes on where this one was stopped."""
    folder, plan = Path(work) / f"{how.name}.{how.variant}", replace(how.plan, leave_out_repeats=True)
    plan = replace(plan, training=replace(plan.training, exits=how.exits[0]))
    parts = read_parts(rows_of(read_texts(data), how.test_split), plan)
    trained = train_parts(model, parts, folder, plan, device=device, say=say, progress=progress)
    networks = [trained.network]
    for kind in how.exits[1:]:
        networks.append(with_exits(kind, trained, parts, folder, plan, say=say, progress=progress))
    fresh = fresh_texts(parts, trained.learnt, leave_out=True)
    tokens, labels = trained.tokenize(fresh.texts.examples), fresh.texts.reordered(trained.classes).labels
    options: dict[str, Any] = {"classes": trained.classes, "folder": folder / "traces", "progress": False}
    options["batch_size"] = plan.batch_size
    others = [PruningTrace(network, tokens, labels, **options) for network in networks[1:]]
    traces = [PruningTrace(networks[0], tokens, labels, beside=others, **options), *others]
    held = trained.tokenize(parts.validation.examples)
    thresholds = [
        thresholds_at_shares(
            network, held, head=how.head_shares, token=how.token_shares, n_layer=how.n_exits, batch_size=plan.batch_size
        )
        for network in networks
    ]
    trace_all(traces[0], thresholds[0], say, progress)
    about = describe(how, plan, parts, fresh.notes)
    return [
        store(how.file(Path(work), kind), trace, found, about | {"exits": kind}, say)
        for kind, trace, found in zip(how.exits, traces, thresholds, strict=True)
    ]


def rows_of(frame: pd.DataFrame, test_split: str) -> pd.DataFrame:
    """Without rows of any split but train and this one."""
    if not test_split:
        return frame
    if "split" not in frame or test_split not in set(frame["split"]):
        found = sorted(frame["split"].unique()) if "split" in frame else "no such column"
        raise InvalidInputError(f"the column 'split' must mark some rows {test_split!r}; got {found}.")
    chosen = (frame["split"] == test_split) | frame["split"].astype(str).str.lower().isin(TRAIN)
    return frame[chosen].reset_index(drop=True)


def with_exits(
    kind: str,
    trained: AdaptiveClassifier,
    parts: TextParts,
    folder: Path,
    plan: Plan,
    *,
    say: Callable[[str], None],
    progress: bool | None,
) -> Network:
    """The same network with exits of another kind; tokens and heads are dropped as before."""
    first = trained.network
    layout = replace(
        Layout.of(kind, first.layout.pairs),
        first_predictor=first.layout.first_predictor,
        token_history=first.layout.predictors_look_back,
    )
    backbone, how = first.backbone, plan.training.heads
    sizes = (layout, backbone.n_layers, backbone.width, backbone.n_classes)

    def make(path: Path) -> None:
        texts = [part.reordered(trained.classes) for part in (parts.train, parts.validation)]
        seen, held = ((trained.tokenize(part.examples), part.labels) for part in texts)
        options: dict[str, Any] = {"seed": plan.training.seed, "progress": progress}
        read = read_for_exits(backbone, layout, seen, held, how, **options)
        found = fit_exit_heads(backbone, layout, read, how, **options)
        save_file(found.state_dict(), path / "exit_heads.safetensors")

    def load(path: Path) -> ExitHeads:
        return loaded(ExitHeads(*sizes), path / "exit_heads.safetensors")

    made_from = {"beside": first.fingerprint, "layout": asdict(layout), "seed": plan.training.seed, **asdict(how)}
    heads = Steps(folder / "training", say).run(f"6-{kind}-exits", made_from, make, load)
    return replace(first, exit_heads=heads.to(backbone.device), layout=layout)


def trace_all(
    trace: PruningTrace, thresholds: Thresholds, say: Callable[[str], None], progress: bool | None = None
) -> None:
    """Every pair of head and token thresholds on all rows, some rows at a time."""
    pairs = [(head, token) for head in thresholds.tau_head for token in thresholds.tau_token]
    say(f"tracing {len(pairs)} passes of {len(trace):,} rows ...")
    with ProgressBar("tracing", len(pairs) * len(trace), shown=progress) as bar:
        for tau_head, tau_token in pairs:
            for start in range(0, len(trace), ROWS_PER_FILE):
                rows = trace.examples[start : start + ROWS_PER_FILE]
                trace.passes(tau_token, tau_head, rows)
                bar.advance(len(rows))


def store(
    path: Path, trace: PruningTrace, thresholds: Thresholds, about: dict[str, Any], say: Callable[[str], None]
) -> Path:
    """All settings on all rows, and beside the file what it was made from."""
    configs = thresholds.space.grid(1)
    identity = hashlib.sha256(json.dumps([trace.fingerprint, configs], sort_keys=True).encode()).hexdigest()
    described = path.with_suffix(".json")
    if path.is_file() and _identity_in(described) == identity:
        say(f"{path.name}: done before")
        return path
    rows = [trace.losses(config, trace.examples) for config in configs]
    losses = {name: np.stack([row[name] for row in rows]) for name in COLUMNS}
    losses["accuracy_drop"] = losses["accuracy_drop"].astype(np.int8)
    path.parent.mkdir(parents=True, exist_ok=True)
    LossTable(configs, losses, trace.groups, trace.bounds).save(path)
    full = trace.passes(0.0, 0.0).probabilities.argmax(axis=2) == trace.labels[:, None]
    first = trace.network.layout.first_exit
    accuracy = [round(float(right), 4) for right in full.mean(axis=0)]
    about = about | {
        "rows": len(trace),
        "settings": len(configs),
        "thresholds": {name: len(getattr(thresholds, name)) for name in ("tau_head", "tau_token", "tau_layer")},
        "accuracy_of_exits": accuracy[first:-1],
        "first_exit_at_depth": first,
        "accuracy": accuracy[-1],
        "sha256": identity,
    }
    write_text(described, to_bytes(about).decode())
    say(f"{path.name}: {len(configs):,} settings x {len(trace):,} rows, full accuracy {accuracy[-1]:.3f}")
    return path


def _identity_in(described: Path) -> str | None:
    """What a table says it was made from; None where it says nothing, or its file was damaged."""
    try:
        return from_bytes(described.read_bytes(), required=False).get("sha256")
    except (OSError, DamagedError):
        return None


def describe(how: TablePlan, plan: Plan, parts: TextParts, notes: Sequence[str]) -> dict[str, Any]:
    """What a reader of the tables must know."""
    training = plan.training
    return {
        "data": how.name,
        "variant": how.variant,
        "train_rows": len(parts.train),
        "validation_rows": len(parts.validation),
        "max_length": training.max_length,
        "fine_tuning": asdict(training.fine_tuning),
        "heads": asdict(training.heads),
        "head_shares": list(how.head_shares),
        "token_shares": list(how.token_shares),
        "seed": plan.seed,
        "notes": list(notes),
    }
