"""The report page of an acceleration: beside the certificate, what it brought, what each dimension brought, what else one could
do with the same texts, and what more training texts would bring. Nothing of that is certified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._reporting.page import Section, report_html
from riskfront._support.arrays import Array
from riskfront._support.files import write_text
from riskfront.transformers._folder import PAGE
from riskfront.transformers._learning.reports import LearningCurve
from riskfront.transformers._learning.training import FINE_TUNED
from riskfront.transformers._speed_up import Alternative, Gain, better_than_certified, load_alternatives

MOST = 1e6  # times cheaper: texts that need no layer have a relative cost of 0
ELSE = "What else you could do"
#: knob of a setting -> what it is called, and its value that changes nothing
DIMENSIONS: dict[str, tuple[str, Any]] = {
    "tau_small": ("the small model", 0.0),
    "tau_layer": ("exits", 0.0),
    "tau_token": ("tokens", 0.0),
    "tau_head": ("heads", 0.0),
    "depth": ("depth", None),  # the largest, which is that of the model
    "precision": ("precision", "float32"),
}


@dataclass(frozen=True, slots=True)
class Brought:
    """What one dimension brought, by the cheapest settings that were measured within the limits on planning texts.

    Args:
        alone: how many times cheaper than the full model with nothing but this dimension.
        without: the same with all dimensions but this one.
        together: the same with all.
    """

    name: str
    alone: float
    without: float
    together: float

    def __str__(self) -> str:
        ratio = self.together / self.without
        if ratio < 1.005:
            return f"{self.name} brought nothing that the others do not"
        return f"{self.name} brought x{ratio:.3g}"


def what_each_brought(certificate: Certificate) -> list[Brought]:
    """Empty where fewer than two dimensions were searched, or cost is not what was minimised."""
    table, columns = certificate.explored, certificate.setting_columns
    goal = certificate.problem.objectives[0]
    if table is None or goal.maximize or goal.name not in table:
        return []
    cost = table[goal.name].to_numpy(dtype=float)
    off = {}
    for name, (_, value) in DIMENSIONS.items():
        if name in columns:
            own = table[columns[name]]
            off[name] = (own == (own.max() if value is None else value)).to_numpy()
    varied = [name for name, same in off.items() if same.any() and not same.all()]
    full = np.logical_and.reduce([off[name] for name in off]) if off else np.zeros(len(table), dtype=bool)
    if len(varied) < 2 or not full.any() or not cost[full].min() > 0:
        return []
    holds = np.ones(len(table), dtype=bool)  # the means on planning texts are within all limits
    for name, limit in zip(certificate.problem.limit_names, certificate.problem.limits, strict=True):
        values = table[name].to_numpy(dtype=float)
        holds &= values <= limit.compared_with if limit.at_least is None else values >= limit.compared_with
    base = float(cost[full].min())

    def times(rows: Array) -> float:
        return base / max(float(cost[rows & holds | full].min()), base / MOST)

    found = []
    for name in varied:
        others_off = np.logical_and.reduce([off[other] for other in varied if other != name])
        found.append(Brought(DIMENSIONS[name][0], times(others_off), times(off[name]), times(holds)))
    return found


def sections(folder: Path, certificate: Certificate) -> list[Section]:
    """Of the page, as far as they were measured."""
    found = []
    gain, rows = Gain.load(folder), load_alternatives(folder)
    brought = what_each_brought(certificate)
    if gain is not None:
        header = ("", "alone", "all but this", "all together")
        cells = [(part.name, *(f"x{n:.3g}" for n in (part.alone, part.without, part.together))) for part in brought]
        note = [f"By the cheapest settings within the limits on planning texts: {'; '.join(map(str, brought))}."]
        if not brought:
            note = ["Only exits were searched: all of it is theirs."] if certificate.explored is None else []
        lead = gain.sentence(certificate.problem, certificate.delta_of_all_looks)
        found.append(Section("What it brought", lead, header, cells, note))
    if rows:
        found.append(_alternatives(rows))
    curve = LearningCurve.load(folder / "training" / FINE_TUNED)
    if curve is not None:
        error = None if gain is None else gain.drop_error  # the margin is that of the normal approximation
        margin = None if error is None else float(norm.isf(certificate.problem.delta)) * error
        wrong = None if gain is None else 1 - gain.full_accuracy
        said = curve.sentences(certificate.n_opt + certificate.n_test, margin, wrong)
        lead = "In the first epoch each text was answered before it was learnt from: a learning curve on new texts."
        points = [(f"{before:,}", round(1 - wrong, 3), n) for before, wrong, n in curve.points()]
        found.append(Section("More texts to learn from", lead, ("texts learnt from", "right", "of"), points, said))
    return found


def _alternatives(rows: list[Alternative]) -> Section:
    lead = (
        "Measured on the calibration texts, not certified. Milliseconds a text on the machine that certified, one text at a "
        "time and in batches of 32, tokenising included."
    )
    header = ("", "accuracy", "texts", "ms, one text", "ms a text, 32")
    cells = [(row.name, round(row.accuracy, 3), row.texts, round(row.alone, 2), round(row.together, 2)) for row in rows]
    better = [f"{name}: more accurate and faster than the certified setting." for name in better_than_certified(rows)]
    return Section(ELSE, lead, header, cells, better or ["None is both faster and more accurate."])


def write_page(folder: Path, certificate: Certificate) -> None:
    """report.html in the folder."""
    write_text(folder / PAGE, report_html(certificate, sections=sections(folder, certificate)))
