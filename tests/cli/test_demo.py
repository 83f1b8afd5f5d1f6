"""The demonstration runs, fits 80 columns, and its cascade is computed as described."""

import io

import numpy as np
import pytest
from rich.console import Console

import riskfront as rf
from riskfront._cli.demo import cascade_table, run_demo, train_cascade

pytestmark = pytest.mark.slow


def test_the_table_is_the_cascade_image_by_image():
    cascade = train_cascade()
    table = cascade_table(cascade)
    rng = np.random.default_rng(0)
    total = cascade.operations.sum()
    for row in rng.choice(table.n_configs, 12, replace=False):
        config = table.config(row)
        for image in rng.choice(table.n_examples, 25, replace=False):
            confidence = cascade.confidences[:, image]
            stage = 0 if confidence[0] >= config["exit_1"] else 1 if confidence[1] >= config["exit_2"] else 2
            answered = confidence[stage] >= config["abstain"]
            wrong = cascade.classes[stage, image] != cascade.labels[image]
            assert table.losses("answered")[row, image] == answered
            assert table.losses("abstained")[row, image] == (not answered)
            assert table.losses("error")[row, image] == (answered and wrong)
            np.testing.assert_allclose(
                table.losses("cost")[row, image], cascade.operations[: stage + 1].sum() / total, rtol=1e-6
            )


def test_the_demo_certifies_writes_and_verifies(tmp_path):
    console = Console(file=io.StringIO(), width=80)
    assert run_demo(tmp_path / "out", console) == 0
    text = console.file.getvalue()
    assert "With 90 % confidence" in text
    assert "Recomputed from the data: the same result." in text
    assert max(map(len, text.splitlines())) <= 80
    certificate = rf.Certificate.load(tmp_path / "out" / "certificate.json")
    assert len(certificate.problem.limits) == 2
    assert len(certificate.problem.objectives) == 2
    assert (tmp_path / "out" / "report.html").stat().st_size > 0
