"""The page of the paper's experiments is made from the results, and what was measured is not measured again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import paper_claims, paper_page, paper_runs
from benchmarks.paper_numbers import FLOPS, papers
from riskfront.experiment._paper.stored_tables import find_tables
from tests.support import experiment_tables

NAMES = ("qqp.paper.cls", "mnli.paper.cls")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    tables = experiment_tables.store(tmp_path_factory.mktemp("tables"), *NAMES, exits=5)
    for name in NAMES:
        data, variant, exits = name.split(".")
        about = {"data": data, "variant": variant, "exits": exits, "rows": 240, "settings": 30, "train_rows": 100}
        about |= {"accuracy": 0.9, "accuracy_of_exits": [0.7, 0.8], "sha256": f"{name:0<64}"}
        about |= {
            "max_length": 128,
            "token_shares": [0.0, 0.5],
            "heads": {"rows": 2000},
            "thresholds": {"tau_layer": 5},
        }
        about |= {"fine_tuning": {"epochs": 1, "learning_rate": 5e-5, "early_layers": 0.0}}
        (tables / f"{name}.json").write_text(json.dumps(about))
    out = tmp_path_factory.mktemp("results")
    runs = {"flops": "qqp", "two-objectives": "qqp", "worst-class": "mnli", "dimensions": "qqp", "sgt-on-half": "qqp"}
    for name, data in runs.items():
        paper_runs.run(name, find_tables(tables, (data,))[0], out, 2)
    paper_runs.keep_descriptions(tables, out)
    return tables, out


def test_the_page_sets_results_next_to_the_paper(results: tuple[Path, Path]) -> None:
    page = "\n".join(paper_page.page(results[1]))
    assert "| pareto-testing | 1.86 / 2.18 / 2.86 |" in page
    assert "![two-objectives: QQP, trained as in the paper, [CLS] exits](two-objectives.qqp.paper.cls.png)" in page
    assert "alpha-constrained (no guarantee)" in page
    assert "--data qqp.parquet --work WORK --variant paper \\\n      --test-split test --train-rows 100" in page
    for sentence in (
        "**The guarantee.**",
        "the lowest mean cost",
        "Worst class, MNLI",
        "over the best single dimension",
    ):
        assert sentence in page
    assert "No table for it was there" in page  # of the experiments that did not run


def test_what_was_measured_is_not_measured_again(
    results: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, out = results
    stored = find_tables(tables, ("qqp",))[0]
    before = (out / "flops.csv").read_text()
    paper_runs.run("flops", stored, out, 2)
    assert capsys.readouterr().out == ""
    stored.path.with_suffix(".json").write_text(json.dumps(stored.about | {"sha256": "another"}))
    paper_runs.run("flops", stored, out, 2)
    assert "flops on QQP" in capsys.readouterr().out
    assert (out / "flops.csv").read_text().count("\n") == before.count("\n")


def test_restricted_dimensions(results: tuple[Path, Path]) -> None:
    table = experiment_tables.simulated_table(20, exits=5)
    only = paper_runs.restricted(table, ("tau_token",))
    assert only.n_configs == 3
    assert (only.configs[["tau_head", "tau_layer"]] == 0).all().all()
    assert paper_runs.restricted(table, paper_runs.AXES).n_configs == table.n_configs
    found = paper_runs.read(results[1] / "dimensions.csv")
    speed = found.pivot_table(index=["method", "alpha"], columns="dimensions", values="best_that_holds")
    assert (speed["all three"] >= speed["exits only"] - 1e-9).all()


def test_broken_guarantees_are_named() -> None:
    row = {"data": "qqp", "variant": "paper", "exits": "cls", "alpha": 0.05, "trials": 100, "experiment": "flops"}
    frame = pd.DataFrame([row | {"method": "sgt", "any_violated": 0.3, "violated": 0.3}])
    said = " ".join(paper_claims.guarantee(frame))
    assert "in 1 of them" in said
    assert "flops, QQP, trained as in the paper, [CLS] exits, sgt" in said
    np.testing.assert_allclose(paper_claims.interval(0.0, 100), (0, 1 - 0.025 ** (1 / 100)))
    assert papers(FLOPS, "pareto-testing", "imdb") == [4.82, 4.82, 4.82]


def test_why_sgt_wins_is_measured() -> None:
    """Two rows in which 3D-SGT is ahead: on half of the examples it stays so in one."""
    at = {"data": "qqp", "variant": "paper", "exits": "cls"}
    spent = "relative cost or the full model"
    rows = [("pareto-testing", 0.05, 0.3), ("sgt", 0.05, 0.2), ("pareto-testing", 0.1, 0.3), ("sgt", 0.1, 0.2)]
    frame = pd.DataFrame([{**at, "method": m, "alpha": a, spent: c} for m, a, c in rows])
    frame = frame.assign(**{"relative cost, standard error": 0.01})
    half = pd.DataFrame([{**at, "method": "sgt", "alpha": a, spent: c} for a, c in ((0.05, 0.4), (0.1, 0.25))])
    said = " ".join(paper_claims.lowest_cost(frame, half))
    assert "in 0 of 2 rows" in said
    assert "3D-SGT is behind Pareto Testing in 1 of these 2 rows" in said
