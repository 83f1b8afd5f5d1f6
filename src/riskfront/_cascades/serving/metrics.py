"""What Prometheus reads of an endpoint: each model's share, price and failures, abstentions, the queue."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from riskfront._cascades.policy import Policy

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Metrics:
    """Counts since the endpoint was started; one event loop adds to them.

    Attributes:
        requests: outcome -> requests: answered, abstained (no model could), refused (the queue was full), invalid.
        answers, calls, errors: model -> how often. dollars: model -> price of its calls, as far as it is known.
        unpriced: calls whose price nobody knows.
    """

    requests: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    dollars: dict[str, float] = field(default_factory=dict)
    unpriced: Counter[str] = field(default_factory=Counter)
    seconds: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    seconds_sum: float = 0.0

    def took(self, seconds: float) -> None:
        self.seconds[bisect_left(_SECONDS, seconds)] += 1
        self.seconds_sum += seconds

    def paid(self, model: str, price: float | None) -> None:
        if price is None:
            self.unpriced[model] += 1
        else:
            self.dollars[model] = self.dollars.get(model, 0.0) + price

    def text(self, policy: Policy, running: int, waiting: int) -> str:
        """The Prometheus text format."""
        answered = sum(self.answers.values())
        models = policy.models
        outcomes = ("answered", "abstained", "refused", "invalid")
        parts = [
            _part(
                "requests_total",
                "counter",
                "Requests by outcome",
                [({"outcome": o}, self.requests[o]) for o in outcomes],
            ),
            _part(
                "abstentions_total",
                "counter",
                "Requests that no model could answer",
                [({}, self.requests["abstained"])],
            ),
            _part("answers_total", "counter", "Answers by model", [({"model": m}, self.answers[m]) for m in models]),
            _part("calls_total", "counter", "Calls by model", [({"model": m}, self.calls[m]) for m in models]),
            _part(
                "model_errors_total",
                "counter",
                "Failed calls by model",
                [({"model": m}, self.errors[m]) for m in models],
            ),
            _part(
                "share",
                "gauge",
                "Share of the answers that a model gave",
                [({"model": m}, self.answers[m] / answered if answered else math.nan) for m in models],
            ),
            _part(
                "certified_share",
                "gauge",
                "That share when the policy was certified",
                [({"model": m}, share) for m, share in zip(models, policy.shares, strict=True)],
            ),
            _part(
                "price_total",
                "counter",
                "Price of the calls, in the unit of the price table, as far as known",
                [({"model": m}, self.dollars.get(m, 0.0)) for m in models],
            ),
            _part(
                "unpriced_calls_total",
                "counter",
                "Calls whose price is unknown",
                [({"model": m}, self.unpriced[m]) for m in models],
            ),
            _part("running", "gauge", "Requests that are worked on", [({}, running)]),
            _part("waiting", "gauge", "Requests that wait", [({}, waiting)]),
        ]
        return "".join(parts) + self._histogram()

    def _histogram(self) -> str:
        lines, total = (
            ["# HELP riskfront_serve_seconds Time to the answer.", "# TYPE riskfront_serve_seconds histogram"],
            0,
        )
        for limit, count in zip((*map(str, _SECONDS), "+Inf"), self.seconds, strict=True):
            total += count
            lines.append(f'riskfront_serve_seconds_bucket{{le="{limit}"}} {total}')
        lines += [f"riskfront_serve_seconds_sum {self.seconds_sum!r}", f"riskfront_serve_seconds_count {total}"]
        return "\n".join(lines) + "\n"


def _part(name: str, kind: str, about: str, rows: list[tuple[dict[str, str], float]]) -> str:
    lines = [f"# HELP riskfront_serve_{name} {about}.", f"# TYPE riskfront_serve_{name} {kind}"]
    for labels, value in rows:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        shown = "NaN" if math.isnan(value) else repr(float(value))
        lines.append(f"riskfront_serve_{name}{{{inner}}} {shown}" if inner else f"riskfront_serve_{name} {shown}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
