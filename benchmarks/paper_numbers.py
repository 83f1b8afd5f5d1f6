"""Numbers of the paper, by table; methods in the paper's order, data sets as AG News, IMDB, QNLI, QQP."""

from __future__ import annotations

DATA = ("ag_news", "imdb", "qnli", "qqp")
METHODS = {
    "sgt": "3D-SGT",
    "split-fst": "Split FST",
    "low-risk-path": "Low-Risk Path",
    "pareto-testing": "Pareto Testing",
}

#: Table D.2, FLOPs speed-up: alpha -> method -> one number a data set
FLOPS = {
    0.025: {
        "sgt": (2.34, 1.71, 1.38, 1.89),
        "split-fst": (2.11, 1.69, 1.35, 1.66),
        "low-risk-path": (2.38, 3.86, 1.37, 1.85),
        "pareto-testing": (2.42, 4.82, 1.37, 1.86),
    },
    0.05: {
        "sgt": (2.89, 4.45, 1.59, 2.16),
        "split-fst": (2.38, 1.99, 1.50, 2.15),
        "low-risk-path": (2.95, 4.20, 1.56, 2.16),
        "pareto-testing": (3.00, 4.82, 1.59, 2.18),
    },
    0.1: {
        "sgt": (3.12, 4.45, 1.99, 2.71),
        "split-fst": (2.80, 4.18, 1.89, 2.69),
        "low-risk-path": (3.65, 4.20, 1.94, 2.73),
        "pareto-testing": (3.65, 4.82, 2.02, 2.86),
    },
}

#: Table D.1, accuracy reduction where the relative cost is limited
COST_CONTROLLED = {
    0.1: {
        "sgt": (0.05, 0.04, 0.14, 0.09),
        "split-fst": (0.05, 0.04, 0.15, 0.10),
        "low-risk-path": (0.26, 0.10, 0.22, 0.25),
        "pareto-testing": (0.05, 0.04, 0.13, 0.09),
    },
    0.2: {
        "sgt": (0.03, 0.02, 0.09, 0.06),
        "split-fst": (0.02, 0.02, 0.09, 0.06),
        "low-risk-path": (0.17, 0.05, 0.26, 0.11),
        "pareto-testing": (0.02, 0.02, 0.08, 0.06),
    },
    0.3: {
        "sgt": (0.02, 0.00, 0.05, 0.03),
        "split-fst": (0.00, 0.00, 0.06, 0.03),
        "low-risk-path": (0.02, 0.01, 0.12, 0.05),
        "pareto-testing": (0.02, 0.00, 0.05, 0.03),
    },
}

#: Table C.1: rows to train on, rows to calibrate on, accuracy of the full model
DATA_SETS = {
    "ag_news": ("115K", 5000, 0.93),
    "imdb": ("20K", 5000, 0.94),
    "qnli": ("~10K", 3400, 0.92),
    "qqp": ("~360K", 5000, 0.91),
    "mnli": ("~250K", 10_000, 0.86),
}


def papers(table: dict[float, dict[str, tuple[float, ...]]], method: str, data: str) -> list[float]:
    """One number for each alpha."""
    return [rows[method][DATA.index(data)] for rows in table.values()]
