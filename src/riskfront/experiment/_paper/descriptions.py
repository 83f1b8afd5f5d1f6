"""The experiments: what is limited, what is free, who takes part, on which data, and how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from riskfront._problems.limits import Limit
from riskfront.experiment._paper.stored_tables import ALPHAS, CALIBRATION, DELTA, PARETO, Lineup, default, exact, paper
from riskfront.methods import SplitFST

FOUR = ("ag_news", "imdb", "qnli", "qqp")
DROP, SIGNED = "accuracy_drop_clipped", "accuracy_drop"
LAMBDAS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Args:
        name: of its command.
        paper: which figure or table of the paper it is.
        question: what it asks, in a line.
        kind: how it is measured and drawn; a key of ``run_experiment.KINDS``.
        data: names of data sets.
        lineups: who takes part, under which limits.
        risks, objectives: names of what is limited and of what is free, for columns and axes.
        minimize, maximize: the free objectives.
        alphas: numbers for the first limit, or one for each limit.
        trials: how often calibration examples are drawn.
        calibration: how many of them, by data set; half of the table where it says nothing.
        shown: the alpha of histogram and violins.
        lambdas: thresholds of abstaining, a fourth dimension.
        exits: so many exit thresholds are kept, to keep the fourth dimension in bounds; None for all.
    """

    name: str
    paper: str
    question: str
    kind: str
    data: tuple[str, ...]
    lineups: tuple[Lineup, ...] = ()
    risks: tuple[str, ...] = ("accuracy reduction",)
    objectives: tuple[str, ...] = ("relative cost",)
    minimize: tuple[str, ...] = ("relative_cost",)
    maximize: tuple[str, ...] = ()
    alphas: tuple[float | tuple[float, ...], ...] = ALPHAS
    trials: int = 100
    calibration: Mapping[str, int] = field(default_factory=lambda: CALIBRATION)
    shown: float | tuple[float, ...] = 0.05
    lambdas: tuple[float, ...] = ()
    exits: int | None = None
    delta: float = DELTA


def _accuracy() -> tuple[Lineup, ...]:
    clipped, signed = Limit(DROP, at_most=0.05), Limit(SIGNED, at_most=0.05)
    return (paper(clipped), exact(clipped), default(clipped), default(signed, form="riskfront's default, signed drop"))


def _worst_class() -> tuple[Lineup, ...]:
    limits = [(Limit(loss, at_most=0.05), Limit(loss, at_most=0.15, per="label")) for loss in (DROP, SIGNED)]
    clipped, signed = limits
    signed_form = default(*signed, form="riskfront's default, signed drop")
    return paper(*clipped), exact(*clipped), default(*clipped), signed_form


def _selective(*more: Limit) -> tuple[Limit, ...]:
    return (Limit(DROP, at_most=0.05, given="answered"), *more)


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "two-objectives",
            "figures 3, 4 and D.4",
            "accuracy reduction is limited, relative cost is free",
            "trials",
            FOUR,
            _accuracy(),
        ),
        Experiment(
            "cost-controlled",
            "table D.1",
            "relative cost is limited, accuracy reduction is free",
            "trials",
            FOUR,
            (paper(Limit("relative_cost", at_most=0.1), corner="high"), default(Limit("relative_cost", at_most=0.1))),
            risks=("relative cost",),
            objectives=("accuracy reduction",),
            minimize=(SIGNED,),
            alphas=(0.1, 0.2, 0.3),
            shown=0.2,
        ),
        Experiment(
            "flops",
            "table D.2",
            "accuracy reduction is limited, floating-point operations are free",
            "trials",
            FOUR,
            _accuracy(),
            objectives=("flops",),
            minimize=("flops",),
            alphas=(0.025, 0.05, 0.1),
        ),
        Experiment(
            "worst-class",
            "figures 5 and D.5",
            "accuracy reduction is limited on average and in every class, relative cost is free",
            "trials",
            ("mnli",),
            _worst_class(),
            risks=("accuracy reduction", "worst-class accuracy reduction"),
            alphas=tuple((alpha, 0.15) for alpha in ALPHAS),
            shown=(0.05, 0.15),
        ),
        Experiment(
            "selective-two-free",
            "figure D.2",
            "selective accuracy reduction is limited, selective cost and abstention are free",
            "chosen-sets",
            ("ag_news",),
            (
                Lineup("", paper(*_selective()).limits, (PARETO, SplitFST(spacing="every"))),
                exact(*_selective()),
                default(*_selective()),
            ),
            objectives=("selective cost", "answered"),
            minimize=("relative_cost given answered",),
            maximize=("answered",),
            alphas=(0.05,),
            trials=10,
            lambdas=LAMBDAS,
            exits=30,
        ),
        Experiment(
            "selective-two-controlled",
            "figure D.6",
            "selective accuracy reduction and abstention are limited, selective cost is free",
            "trials",
            ("ag_news",),
            (
                paper(*_selective(Limit("answered", at_least=0.9)), corner=None),
                exact(*_selective(Limit("answered", at_least=0.9))),
                default(*_selective(Limit("answered", at_least=0.9))),
            ),
            risks=("accuracy reduction", "answered"),
            objectives=("selective cost",),
            minimize=("relative_cost given answered",),
            alphas=tuple((alpha, 0.9) for alpha in ALPHAS),
            shown=(0.05, 0.9),
            lambdas=LAMBDAS,
            exits=30,
        ),
        Experiment(
            "optimizer",
            "figure D.1",
            "what is certified after few evaluations, beside the full grid",
            "optimizers",
            ("ag_news",),
            (Lineup("", paper(Limit(DROP, at_most=0.05)).limits, (PARETO,)),),
            alphas=(0.025, 0.05, 0.1, 0.15, 0.2),
            trials=10,
        ),
        Experiment(
            "cloud",
            "figure D.3",
            "accuracy and cost of every setting, and the front",
            "clouds",
            (*FOUR, "mnli"),
        ),
        Experiment(
            "router",
            "not in the paper",
            "the drop of a score from the best of eleven language models is limited, the price is free",
            "trials",
            ("router",),
            (
                paper(Limit("score_drop_clipped", at_most=0.05), corner=None),
                default(Limit("score_drop", at_most=0.05), form="riskfront's default, signed drop"),
            ),
            risks=("drop of the score",),
            objectives=("price",),
            minimize=("cost",),
            alphas=(0.02, 0.03, 0.05, 0.1),
            calibration={"router": 2000},
        ),
        Experiment(
            "quantisation",
            "not in the paper",
            "the drop of a score by quantisation of a language model is limited, bits are free",
            "trials",
            ("quantisation",),
            (
                paper(Limit("score_drop_clipped", at_most=0.02), corner=None),
                default(Limit("score_drop", at_most=0.02), form="riskfront's default, signed drop"),
            ),
            risks=("drop of the score",),
            objectives=("bits",),
            minimize=("bits",),
            alphas=(0.005, 0.01, 0.02, 0.03),
            calibration={"quantisation": 5000},
            shown=0.02,
        ),
    )
}
