"""Drops from a reference setting: which setting is meant, and that sums and sequences are differences."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._problems.terms import Term
from tests.support.tables import random_table


@pytest.mark.parametrize(("name", "row"), [("full", 0), ("bits=8, kind=b", 2), ("4", 3), ("kind=b,bits=16", 1)])
def test_a_reference_is_found_by_a_value_or_by_columns(name, row):
    configs = [
        {"kind": "full", "bits": 16},
        {"kind": "b", "bits": 16},
        {"kind": "b", "bits": 8},
        {"kind": "c", "bits": 4},
    ]
    table = rf.LossTable(configs, {"score": np.zeros((4, 3))})
    assert table.reference(name) == row


@pytest.mark.parametrize(
    ("name", "words"), [("b", "2 of them"), ("x", "none"), ("16", "2 of them"), ("bits=16", "2 of them")]
)
def test_refusals(name, words):
    configs = [{"kind": "b", "bits": 16}, {"kind": "b", "bits": 8}, {"kind": "c", "bits": 16}]
    table = rf.LossTable(configs, {"score": np.zeros((3, 3))})
    with pytest.raises(rf.InvalidInputError, match=f"exactly one setting.*{words}"):
        table.reference(name)
    with pytest.raises(rf.InvalidInputError, match="on the same examples; 'answered' depends"):
        random_table().means(Term("error", given="answered", drop_from="a=0, b=0"))


@pytest.mark.parametrize("loss", ["error", "regret", "drop"])
@pytest.mark.parametrize("per", [None, "label"])
def test_sums_and_sequences_are_differences(loss, per):
    table = random_table().subset(np.random.default_rng(0).permutation(300)[:120])
    name = "a=1, b=3"
    term, row = Term(loss, per=per, drop_from=name), 1 * 5 + 3
    values = table.losses(loss).astype(float)
    wanted = values[row] - values
    groups = [np.ones(120, bool)] if per is None else [table.group("label").codes == c for c in range(3)]
    np.testing.assert_allclose(
        table.means(term), np.stack([wanted[:, g].mean(axis=1) for g in groups], axis=1), atol=1e-12
    )
    rows = np.array([4, 0, row])
    found, condition, kept = table.sequences(term, rows)
    assert condition is None
    np.testing.assert_allclose(found, wanted[rows])
    assert len(kept) == len(groups)
    np.testing.assert_allclose(table.totals(term, rows).total, table.totals(term).total[rows], atol=1e-9)


def test_numbers_of_the_settings_are_objectives():
    table = random_table()
    assert table.means("a")[:, 0].tolist() == table.configs["a"].tolist()
    problem = rf.Problem(["error <= 0.15"], minimize="cost", maximize=["b"])
    certificate = rf.calibrate(table, problem)
    assert certificate.chosen["b"].tolist() == [c["b"] for c in certificate.configs]
    with pytest.raises(rf.InvalidInputError, match="'b' is a column of the settings, which needs no test"):
        rf.calibrate(table, rf.Problem(["b <= 0.15"], minimize="cost"))
    texts = rf.LossTable([{"a": "x"}, {"a": "y"}], {"error": np.zeros((2, 50), bool)})
    with pytest.raises(rf.InvalidInputError, match="number for every setting"):
        rf.calibrate(texts, rf.Problem(["error <= 0.15"], minimize="a"))
