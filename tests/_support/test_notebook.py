"""Rich views for notebooks, and concise text for terminals."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._support import notebook
from tests.support import certificates
from tests.support.certificates import certificate


@pytest.mark.parametrize("name", certificates.NAMES)
def test_certificate_view(name: str) -> None:
    of = certificate(name)
    html = of._repr_html_()
    assert html.count("<table") == html.count("</table>") == (2 if of else 0)
    if of and name != "hostile":
        assert of.verdict() in html
        for column in of.chosen.dropna(axis="columns", how="all").columns:
            assert f">{column}</th>" in html
    if not of.guaranteed:
        assert "No guarantee" in html
        assert "NO GUARANTEE" in html
    assert repr(of).startswith(f"Certificate({'' if of.guaranteed else 'NO GUARANTEE, '}{of.method}: ")
    assert "\n" not in repr(of)


def test_nothing_certified_view() -> None:
    of = certificate("nothing")
    assert of.diagnosis is not None
    assert "Nothing certified" in of._repr_html_()
    assert f"{of.diagnosis['examples']:,} testing examples" in of._repr_html_()


def test_table_view() -> None:
    html = certificates.table()._repr_html_()
    for part in (
        "settings: <b>60</b>",
        "examples: <b>3,000</b>",
        ">error</td>",
        ">0/1</td>",
        ">label</td>",
        "and 50 more",
    ):
        assert part in html
    bare = rf.LossTable([{"a": 1}], {"error": np.zeros((1, 3))})
    assert "Groups" not in bare._repr_html_()


def test_problem_view() -> None:
    html = certificates.problem("three")._repr_html_()
    for part in (
        "confidence: <b>90 %</b>",
        ">error</td>",
        ">at most</td>",
        ">0.06</td>",
        ">minimise</td>",
        ">price</td>",
    ):
        assert part in html
    assert ">maximise</td>" in certificates.problem("quantile")._repr_html_()


def test_names_are_escaped() -> None:
    table, asked, of = certificates.table(hostile=True), certificates.problem("hostile"), certificate("hostile")
    for html in (table._repr_html_(), asked._repr_html_(), of._repr_html_()):
        assert not re.search("<script|<img|</td>cat|<b>bold", html)


def test_header_cells_have_a_scope() -> None:
    html = certificate("two")._repr_html_()
    assert html.count("<th ") == html.count('<th scope="col"')


def test_long_frames_are_cut_and_empty_columns_left_out() -> None:
    html = notebook.frame("numbers", pd.DataFrame({"a": range(12), "b": [None] * 12, "c": np.linspace(0, 1, 12)}))
    assert html.count("<tr>") == 11
    assert "… and 2 more" in html
    assert ">b</th>" not in html
    assert ">0.09091<" in html


def test_texts_are_short_and_make_the_object_again() -> None:
    limit = rf.Limit("error", at_most=0.15, per="label", p_value="betting")
    assert repr(limit) == "Limit('error', at_most=0.15, per='label', p_value='betting')"
    assert repr(rf.Objective("cost", given="answered")) == "Objective('cost', given='answered')"
    asked = rf.Problem([limit, rf.Limit("recall", at_least=0.9)], ["cost", rf.Objective("price", per="label")], "speed")
    assert repr(asked) == (
        "Problem([Limit('error', at_most=0.15, per='label', p_value='betting'), Limit('recall', at_least=0.9)], "
        "minimize=['cost', Objective('price', per='label')], maximize=['speed'], delta=0.1)"
    )
    names = {"Problem": rf.Problem, "Limit": rf.Limit, "Objective": rf.Objective}
    assert eval(repr(asked), names) == asked
    both = rf.Problem([limit], maximize=[rf.Objective("speed", per="label")], delta=0.05)
    assert eval(repr(both), names) == both
