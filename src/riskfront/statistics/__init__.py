"""Every inequality and every procedure, on plain arrays: p-values, and procedures that keep the family-wise error.

The p-values are valid for any distribution and any n. ``binomial`` is exact for 0/1 losses; ``hoeffding``, ``bentkus`` and
``hoeffding_bentkus`` take the sum of bounded losses; ``betting`` takes the losses one by one. A plan names one of the
procedures.
"""

from riskfront.statistics._betting import betting
from riskfront.statistics._bounds import bentkus, binomial, hoeffding, hoeffding_bentkus
from riskfront.statistics._procedures import Bonferroni, FixedSequence, Graphical, Holm

__all__ = [
    "Bonferroni",
    "FixedSequence",
    "Graphical",
    "Holm",
    "bentkus",
    "betting",
    "binomial",
    "hoeffding",
    "hoeffding_bentkus",
]
