"""How each method goes about it, in plain words."""

from __future__ import annotations

from collections.abc import Mapping

#: how each method goes about it, in a sentence
METHOD_IN_WORDS: Mapping[str, str] = {
    "pareto-testing": "Planned on the planning examples: the best trade-offs, safest first. Tested them in that order on the "
    "testing examples, and stopped at the first failure.",
    "split-fst": "Ordered settings by their p-values on the planning examples. Tested them in that order on the testing "
    "examples, and stopped at the first failure.",
    "constrained-path": "Solved the problem with tighter limits on the planning examples. Tested the solutions on the testing "
    "examples, strictest first, and stopped at the first failure.",
    "low-risk-path": "Learned a path through the grid of settings on the planning examples. Tested along it on the testing "
    "examples, and stopped at the first failure.",
    "sgt": "Tested the grid of settings from its safest corner outwards; each success passes its share of delta on to its "
    "neighbours.",
    "fallback": "Shared delta over the values of the first setting, and tested a fixed sequence through the others.",
    "ordered-knob": "Tested the values of one knob on all examples, from its declared safest end on, and stopped at the first "
    "failure.",
    "bonferroni": "Tested every setting at delta divided by the number of settings.",
    "holm": "Tested every setting by Holm's procedure.",
    "alpha-constrained": "Picked the best setting that measures within the limits. No test was made.",
    "alpha-delta-constrained": "Picked the best setting with a p-value of at most delta, without a correction for the number "
    "of settings that were looked at.",
}
