"""The values of limits and objectives along one threshold, for a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._support.arrays import FloatArray
from riskfront.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdCurves:
    """Curves along one setting.

    Attributes:
        setting: the name of the setting.
        threshold: (m,) its values, ascending.
        names: of the limits, then of the objectives.
        values: (curves, m) what was measured on the testing examples.
        limits: the number that each curve compares with; None for objectives.
        certified: the lowest and the highest certified value; None without any.
        chosen: the value in use; None without any.
        title: the verdict.
    """

    setting: str
    threshold: FloatArray
    names: tuple[str, ...]
    values: FloatArray
    limits: tuple[float | None, ...]
    certified: tuple[float, float] | None
    chosen: float | None
    title: str


def threshold_data(certificate: Certificate) -> ThresholdCurves:
    """The curves of a certificate whose settings differ in one number."""
    tested = certificate.tested
    varied = [column for column in certificate.setting_columns.values() if tested[column].nunique() > 1]
    if len(varied) != 1 or tested[varied[0]].dtype.kind not in "biuf":
        raise InvalidInputError(
            f"plot_threshold needs settings that differ in one number; these differ in {', '.join(varied) or 'nothing'}. "
            "plot_tradeoff draws any."
        )
    (column,) = varied
    ordered = tested.sort_values(column, kind="stable")
    problem = certificate.problem
    names = [*problem.limit_names, *(objective.name for objective in problem.objectives)]
    kept = list(dict.fromkeys(names))
    compared = dict(zip(problem.limit_names, (limit.compared_with for limit in problem.limits), strict=True))
    passed = ordered.loc[ordered["certified"].astype(bool), column]
    setting = next(name for name, shown in certificate.setting_columns.items() if shown == column)
    return ThresholdCurves(
        setting=str(setting),
        threshold=ordered[column].to_numpy(dtype=np.float64),
        names=tuple(kept),
        values=np.stack([ordered[name].to_numpy(dtype=np.float64) for name in kept]),
        limits=tuple(compared.get(name) for name in kept),
        certified=(float(passed.min()), float(passed.max())) if len(passed) else None,
        chosen=float(certificate.config[setting]) if certificate else None,
        title=certificate.verdict().split(". ")[0].rstrip(".") + ".",
    )
