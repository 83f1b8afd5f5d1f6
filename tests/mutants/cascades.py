"""Faults behind cascades."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from riskfront._cascades import cascade, features, outcomes, replay
from riskfront._data.logs import gather, read_runs
from riskfront._data.reading import column_roles
from tests.mutants.mutant import Mutant, everywhere


def learns_from_what_it_tests() -> None:
    """The examples that a confidence and its thresholds are learnt from are planned and tested on as well."""
    split = cascade.split_examples

    def broken(*args: Any) -> tuple[Any, Any]:
        _, rest = split(*args)
        return rest, rest

    cascade.split_examples = broken  # type: ignore[attr-defined]


def outcomes_are_features() -> None:
    """A metric that needs the gold label passes for something that a response says of itself."""
    features.SAID_BY_ANSWERS = (*features.SAID_BY_ANSWERS, "exact_match")


def gold_labels_are_features() -> None:
    """A gold label passes for something that is known of a prompt."""
    features._GOLD = re.compile("(?!)")


def judged_answers_of_the_reference() -> None:
    """On unlabelled examples every setting is judged by the answers of the last model."""
    real = outcomes.Outcomes.column

    def broken(self: Any, name: str, **given: Any) -> Any:
        if name == "judge" and "score" not in self.runs.values:
            judge = self.runs.values["judge"]
            values = {**self.runs.values, "judge": np.broadcast_to(judge[-1:], judge.shape).copy()}
            self = replace(self, runs=replace(self.runs, values=values))
        return real(self, name, **given)

    outcomes.Outcomes.column = broken  # type: ignore[method-assign]


def unasked_references_do_not_drop() -> None:
    """A request that the reference was not asked on counts as one without a drop."""
    real = replay._logged

    def broken(runs: Any, name: str) -> Any:
        found = real(runs, name)
        return found if found is None or " of " not in name else np.where(np.isnan(found), real(runs, "score"), found)

    replay._logged = broken


def unscored_requests_vanish() -> None:
    """A request that nobody answered is left out."""
    real = replay._as_answered

    def broken(policy: Any, runs: Any) -> Any:
        return real(policy, runs.at(np.flatnonzero(~np.isnan(replay._logged(runs, "score")))))

    replay._as_answered = broken


def copies_are_examples() -> None:
    """A prompt that comes again under another name counts as one more example."""
    cascade.runs_that_count = lambda runs, repeats: (runs, ())


def ids_tell_questions() -> None:
    """Answers are compared wherever their ids are the same."""
    gather._refuse_other_questions = lambda *given: None


def means_decide_what_one_answer_decides() -> None:
    """A confidence that is a mean over several answers is taken for that of the one answer that a policy asks for."""
    cascade.usual_times = lambda runs: None


def questions_of_a_table_are_not_compared() -> None:
    """Of a table only the names of examples are compared."""
    read_runs._with_questions = lambda frame, path: frame


def prompts_of_imported_logs_are_not_compared() -> None:
    """Of a file that import wrote only the names of examples are compared."""
    everywhere(column_roles.refuse_copied_prompts, lambda source: None)


MUTANTS = [
    Mutant(
        "prompts of imported logs are not compared",
        "calibrate: an imported log that was copied",
        prompts_of_imported_logs_are_not_compared,
    ),
    Mutant("one answer passes for a mean", "cascade: means over several answers", means_decide_what_one_answer_decides),
    Mutant("copies among judged answers", "cascade: judged answers that were copied", copies_are_examples),
    Mutant("questions are not compared", "cascade: other questions in a table", questions_of_a_table_are_not_compared),
    Mutant("copies under other names count", "router: a log copied under other names", copies_are_examples),
    Mutant("answers with names of their own count", "router: several answers to one prompt", copies_are_examples),
    Mutant("ids tell questions", "cascade: other questions under one id", ids_tell_questions),
    Mutant("answers of the reference judged", "cascade: few labels and a judge", judged_answers_of_the_reference),
    Mutant("no drop where nobody asked", "check: a policy at work", unasked_references_do_not_drop),
    Mutant("requests without an answer vanish", "check: a policy at work", unscored_requests_vanish),
    Mutant("a gain learnt from what is tested", "router: a gain learnt from noise", learns_from_what_it_tests),
    Mutant("outcomes among the features", "cascade: a gain learnt from noise", outcomes_are_features),
    Mutant("gold labels among the features", "router: a gain learnt from noise", gold_labels_are_features),
    Mutant(
        "a confidence learnt from what is tested", "cascade: a confidence learnt from noise", learns_from_what_it_tests
    ),
]
