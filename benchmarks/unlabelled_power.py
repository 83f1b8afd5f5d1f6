"""How often one setting passes its test, with proxies from good to useless and few or many unlabelled examples.

A 0/1 loss, risk .035 against a limit of .05, 800 labelled examples; tested at .1, as along a path, and at .001, as one of a
hundred settings side by side. The good proxy is disagreement: 1 on every loss and as often without one.

    python -m benchmarks.unlabelled_power

It writes benchmarks/results/unlabelled_power.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from riskfront.statistics._p_values import betting, binomial
from riskfront.statistics._prediction_powered_betting import powered_betting

RISK, ALPHA, LABELS, TRIALS = 0.035, 0.05, 800, 4_000
LEVELS = (0.1, 0.001)
OUT = Path("benchmarks/results/unlabelled_power.md")


def drawn(random: np.random.Generator, kind: str, batch: int) -> tuple[Any, Any]:
    """Losses, and differences between the proxy and its mean over a batch."""
    rate = 0.5 if kind == "a coin" else 2 * RISK
    proxy = random.random((TRIALS, LABELS)) < rate
    loss = random.random((TRIALS, LABELS)) < RISK if kind == "a coin" else proxy & (random.random(proxy.shape) < 0.5)
    return loss, proxy - random.binomial(batch, rate, proxy.shape) / batch


def main() -> None:
    random = np.random.default_rng(0)
    lines = ["| | tested at .1 | tested at .001 |", "| --- | --- | --- |"]
    loss, _ = drawn(random, "a coin", 1)
    counts = loss.sum(axis=1)
    shares = {"labels alone, exact binomial": [(binomial(counts, LABELS, ALPHA) <= level).mean() for level in LEVELS]}
    shares["labels alone, betting"] = [(betting(loss, ALPHA, level) <= level).mean() for level in LEVELS]
    for kind in ("disagreement", "a coin"):
        for batch in (20, 2, 1):
            loss, differences = drawn(random, kind, batch)
            found = [powered_betting(loss, differences, ALPHA, level) <= level for level in LEVELS]
            shares[f"{batch} unlabelled for each label, proxy {kind}"] = [passed.mean() for passed in found]
    lines += [f"| {name} | {' | '.join(f'{share:.3f}' for share in of)} |" for name, of in shares.items()]
    about = (
        f"Made by `python -m benchmarks.unlabelled_power`: the share of {TRIALS:,} trials in which a setting passes; risk "
        f"{RISK} against {ALPHA}, {LABELS} labels. A coin is a proxy that says nothing."
    )
    OUT.write_text(f"{about}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
