"""What a terminal shows, at several widths."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import riskfront as rf
from riskfront._reporting import terminal
from tests.support.certificates import certificate, table

FRAME = pd.DataFrame(
    {
        "method": ["pareto-testing", "alpha-delta-constrained"],
        "alpha": [0.05, 0.05],
        "error given answered": [0.012345678, 0.23456],
        "error per label": [0.1, 0.2],
        "relative cost of a call": [0.3123, 0.1],
        "latency": [1234567.8, 2.5],
        "violated": [0.0, 0.1],
        "95 % interval": ["0 to 0.037", "0.1 to 0.2"],
        "found": [1.0, 0.9],
    }
)
NUMBERS = ["0.01235", "0.2346", "0.3123", "1,234,568", "2.5", "0 to 0.037", "0.1 to 0.2"]


def console(width: int) -> Console:
    made = terminal.make_console()
    made.file = io.StringIO()
    made.width = width
    return made


def shown(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160, 240])
def test_numbers_are_never_broken_and_lines_fit(width: int) -> None:
    made = console(width)
    terminal.show_frame(made, "Means", FRAME)
    lines = shown(made).splitlines()
    assert max(len(line) for line in lines) <= width
    for number in NUMBERS:
        assert any(number in line for line in lines), number


def test_a_wide_window_is_used() -> None:
    """The same table: four lines and its header where there is room, several tables where there is not."""
    texts = {}
    for width in (80, 200):
        made = console(width)
        terminal.show_frame(made, "Means", FRAME)
        texts[width] = shown(made)
    assert texts[200].count("pareto-testing") == 1
    assert texts[80].count("pareto-testing") == 2
    assert "error given answered" in texts[200]
    assert max(map(len, texts[200].splitlines())) > 100


def test_a_title_is_longer_than_its_table() -> None:
    made = console(80)
    terminal.show_frame(made, "Chance of a certificate", pd.DataFrame({"n": [10], "chance": [0.5]}), left=0)
    assert shown(made).splitlines()[0] == "Chance of a certificate"


def test_sentences_stay_narrow_in_a_wide_window() -> None:
    made = console(200)
    made.print("word " * 60, markup=False)
    assert max(map(len, shown(made).splitlines())) <= 80


def test_a_certificate_shows_measured_values_and_no_bound() -> None:
    made = console(80)
    terminal.show_certificate(made, certificate("per"))
    text = " ".join(shown(made).split())
    of = certificate("per")
    assert "limit measured examples p-value tested at" in text
    worst = of.measured[of.measured["group"].notna()].sort_values("p_value").iloc[-1]
    assert re.search(rf"error per label <= 0\.15 \(nearest: +{worst['measured']:.4g} +{worst['examples']}", text)
    assert f"{worst['group']})" in text
    assert (
        "What holds on new examples is the limit, not the measured value, for all certified settings together." in text
    )
    counts = rf"{int(of.path['certified'].sum())} of {len(of.path)} tested settings certified by pareto-testing"
    assert f"{counts}; {of.n_opt:,} planning examples, {of.n_test:,} testing examples" in text


def test_the_setting_to_use_is_not_rounded() -> None:
    """A rounded threshold, typed in, is another setting than the one that was certified."""
    exact = 0.4636123456789012
    made = rf.LossTable([{"threshold": exact}], {"error": np.zeros((1, 300), dtype=bool), "cost": np.ones((1, 300))})
    found = console(120)
    terminal.show_certificate(
        found, rf.calibrate(made, rf.Problem("error <= 0.1", minimize="cost"), method="bonferroni")
    )
    assert f"Use: threshold = {exact!r}" in shown(found)


def test_without_a_guarantee_nothing_is_called_certified() -> None:
    for name in ("unguaranteed", "uncorrected"):
        made = console(80)
        terminal.show_certificate(made, certificate(name))
        text = " ".join(shown(made).split())
        assert text.startswith("NO GUARANTEE")
        assert "certified" not in text
        assert "picked from by" in text
        assert ("p-value" in text) == (name == "uncorrected")


def test_several_chosen_settings_are_numbered() -> None:
    made = console(80)
    terminal.show_certificate(made, certificate("three"))
    assert re.search(r"#\s+threshold\s+batch\s+prompt", shown(made))
    assert len(re.findall(r"(?m)^ *\d+ +0\.\d", shown(made))) == len(certificate("three").chosen)


def test_a_table_is_called_by_what_it_holds() -> None:
    made = console(80)
    terminal.show_table(made, table())
    text = shown(made)
    assert "Outcomes" in text
    assert "60 settings x 3,000 examples" in text
    many = rf.LossTable([{"a": 1}], {"error": np.zeros((1, 40), dtype=bool)}, {"site": np.arange(40) % 20})
    terminal.show_table(made, many)
    assert "0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, ..." in shown(made)


def test_a_pipe_has_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_frame(terminal.make_console(), "Means", FRAME)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
