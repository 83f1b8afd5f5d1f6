"""`riskfront reproduce`: the list, a run, a method of one's own, and what is said about mistakes."""

from pathlib import Path

import pandas as pd
import pytest

from riskfront._cli import main
from riskfront.experiment._paper.descriptions import EXPERIMENTS

OWN = """
from riskfront.methods import BonferroniTesting

class Mine(BonferroniTesting):
    name = "mine"

class NoMethod:
    pass
"""


def run(*words: str) -> int:
    try:
        return int(main(["reproduce", *words]) or 0)
    except SystemExit as end:
        return int(end.code or 0)


def test_the_list_names_every_experiment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("list") == 0
    said = capsys.readouterr().out
    assert all(name in said for name in EXPERIMENTS)


def test_a_method_of_ones_own_adds_a_row(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    options = ["--tables", str(tables), "--out", str(tmp_path / "out"), "--trials", "2"]
    assert run("flops", *options, "--methods", "my_methods:Mine") == 0
    found = pd.read_csv(tmp_path / "out" / "flops.csv")
    assert "mine" in set(found["method"])
    assert set(found["trials"]) == {2}


def test_mistakes(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_other_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    options = ["--tables", str(tables), "--out", str(tmp_path / "out"), "--trials", "2"]
    for given, said in (
        ("mine", "my_module:MyMethod"),
        ("my_other_methods:None_", "can be imported"),
        ("my_other_methods:NoMethod", "it lacks name, guaranteed"),
    ):
        assert run("flops", *options, "--methods", given) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert run("flops", "--tables", str(tmp_path), "--out", str(tmp_path)) == 2
