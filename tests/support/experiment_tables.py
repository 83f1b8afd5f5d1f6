"""Simulated loss tables with the columns and the grid of ``riskfront reproduce tables``: no text, no network."""

from pathlib import Path

import numpy as np

import riskfront as rf

DEPTHS = 12
FULL_FLOPS = 1e9


def simulated_table(
    rows: int = 240, *, heads: int = 2, tokens: int = 3, exits: int = 8, classes: int = 3, seed: int = 0
) -> rf.LossTable:
    """Texts of their own difficulty leave at the first depth that is sure enough; fewer heads and tokens cost accuracy."""
    random = np.random.default_rng(seed)
    label = random.integers(0, classes, rows)
    final = random.normal(2.0, 1.2, rows)  # how far the right class is ahead of the others after the last layer
    walk = np.cumsum(random.normal(0, 0.35, (rows, DEPTHS + 1)), axis=1)
    seen = np.linspace(0.35, 1.0, DEPTHS + 1)
    configs, columns = [], {name: [] for name in ("error", "relative_cost", "flops", "confidence")}
    for head in range(heads):
        for token in range(tokens):
            harm = random.normal(0.15 * head + 0.3 * token, 0.05 + 0.1 * (head + token > 0), rows)
            ahead = final[:, None] * seen + (walk - walk[:, -1:]) - harm[:, None] * (head + token > 0)
            right = 1 / (1 + (classes - 1) * np.exp(-ahead))
            sure = np.maximum(right, (1 - right) / max(classes - 1, 1))
            share = (1 - 0.2 * head) * (1 - 0.25 * token) ** 2
            for threshold in np.linspace(0, 1, exits):
                bar = 1.01 - threshold * (1.01 - 1 / classes)
                leaves = np.where(sure >= bar, np.arange(DEPTHS + 1), DEPTHS).min(axis=1)
                at = (np.arange(rows), leaves)
                spent = np.maximum(share * leaves / DEPTHS, 1e-4).astype(np.float32)
                configs.append({"tau_head": 0.1 * head, "tau_token": 0.1 * token, "tau_layer": float(threshold)})
                for name, values in (
                    ("error", ahead[at] <= 0),
                    ("relative_cost", spent),
                    ("flops", (FULL_FLOPS * spent).astype(np.float32)),
                    ("confidence", sure[at].astype(np.float32)),
                ):
                    columns[name].append(values)
    losses = {name: np.stack(values) for name, values in columns.items()}
    losses["accuracy_drop"] = (losses["error"].astype(np.int8) - losses["error"][0].astype(np.int8)).astype(np.int8)
    losses["accuracy_drop_clipped"] = losses["accuracy_drop"] > 0
    bounds = {"accuracy_drop": (-1.0, 1.0), "flops": (0.0, 2 * FULL_FLOPS)}
    return rf.LossTable(configs, losses, {"label": label}, bounds)


def store(folder: Path, *names: str, **options: int) -> Path:
    """Tables of these names, DATA.VARIANT.EXITS, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        simulated_table(seed=seed, **options).save(folder / f"{name}.parquet")
    return folder
