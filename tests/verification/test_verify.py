"""verify, for certificates that tune made: recomputed from the store it left, without the user's function."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cli import main
from riskfront._support.checked_json import with_digest
from riskfront.errors import InvalidInputError, StoreError
from tests.support.command_line import riskfront

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

EXAMPLES = np.random.default_rng(0).random((900, 2))
SPACE = rf.Space(x=rf.Float(0, 1), n=rf.Int(1, 5), model=rf.Choice(["a", "b", 3, True]))
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.2), rf.Limit("error", at_most=0.3, per="half")], minimize="cost")
GROUPS = {"half": EXAMPLES[:, 1] > 0.5}


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    safe = config["x"] ** 2 / config["n"]
    return {
        "error": np.asarray(examples)[:, 0] < safe,
        "cost": np.full(len(examples), 2 * (1 - config["x"]) / config["n"]),
    }


def tuned(store: Path, **options: Any) -> rf.Certificate:
    given = {"search": "random", "budget": 30, "groups": GROUPS, "bounds": {"cost": (0, 2)}, **options}
    return rf.tune(losses, EXAMPLES, SPACE, PROBLEM, store=store, **given)


@pytest.mark.parametrize("options", [{}, {"n_jobs": 2}, {"method": "split-fst", "seed": 4}, {"search": "grid"}])
def test_a_certificate_of_tune_is_recomputed_from_its_store(tmp_path: Path, options: dict[str, Any]) -> None:
    certificate = tuned(tmp_path / "run.zarr", **options)
    assert certificate
    certificate.save(tmp_path / "certificate.json")
    loaded = rf.Certificate.load(tmp_path / "certificate.json")
    assert rf.verify(loaded, tmp_path / "run.zarr") == []
    assert rf.verify(certificate, f"{tmp_path}/run.zarr/") == []


def test_a_store_that_went_on_still_recomputes_the_certificate(tmp_path: Path) -> None:
    first = tuned(tmp_path / "run.zarr")
    tuned(tmp_path / "run.zarr", budget=40, again=True)
    assert rf.verify(first, tmp_path / "run.zarr") == []


def test_what_is_not_true_is_found(tmp_path: Path) -> None:
    certificate = tuned(tmp_path / "run.zarr")
    path = certificate.path.copy()
    path["p_value"] = path["p_value"] / 2
    assert any("path.p_value" in line for line in rf.verify(replace(certificate, path=path), tmp_path / "run.zarr"))
    other = tuned(tmp_path / "other.zarr", seed=1)
    with pytest.raises(StoreError, match="has no losses of the setting"):
        rf.verify(other, tmp_path / "run.zarr")
    (chunk,) = (tmp_path / "run.zarr/opt/parts").glob("*/error/0.0")
    data = bytearray(chunk.read_bytes())
    data[0] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match="SHA-256 differs"):
        rf.verify(certificate, tmp_path / "run.zarr")


def test_the_sentences_for_what_cannot_be_recomputed(tmp_path: Path) -> None:
    certificate = tuned(tmp_path / "run.zarr")
    table = rf.LossStore(tmp_path / "run.zarr/opt").table()
    with pytest.raises(InvalidInputError, match=r"give the path of its store, verify\(certificate, 'run.zarr'\)"):
        rf.verify(certificate, table)
    with pytest.raises(StoreError, match="there is no store of losses"):
        rf.verify(certificate, tmp_path / "absent.zarr")
    rf.evaluate(losses, EXAMPLES, SPACE.grid(2), store=tmp_path / "grid.zarr", bounds={"cost": (0, 2)}, groups=GROUPS)
    calibrated = rf.calibrate(rf.LossStore(tmp_path / "grid.zarr").table(), PROBLEM)
    assert rf.verify(calibrated, tmp_path / "grid.zarr") == []


def test_a_tested_setting_that_the_store_lacks(tmp_path: Path) -> None:
    certificate = tuned(tmp_path / "run.zarr")
    for lines in (tmp_path / "run.zarr/test/done").glob("*.jsonl"):
        lines.write_bytes(b"")
    with pytest.raises(StoreError, match="must hold the test losses of every tested setting"):
        rf.verify(certificate, tmp_path / "run.zarr")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(tmp_path / "run.zarr").save(tmp_path / "certificate.json")
    with pytest.raises(SystemExit) as stop:
        main(["verify", str(tmp_path / "certificate.json"), str(tmp_path / "run.zarr")])
    assert stop.value.code == 0
    assert "The certificate matches" in capsys.readouterr().out


def test_a_certificate_of_certify_is_verified_with_both_tables() -> None:
    rng = np.random.default_rng(4)
    configs = [{"t": i} for i in range(4)]
    opt, test = (
        rf.LossTable(
            configs, {"error": rng.beta(1, 9, (4, n)), "cost": np.repeat([[1.0], [0.7], [0.4], [0.1]], n, axis=1)}
        )
        for n in (200, 600)
    )
    problem = rf.Problem(["error <= 0.15"], minimize=["cost"])
    certificate = rf.certify(rf.ParetoTesting().plan(opt, problem), test, problem)
    assert certificate
    assert rf.verify(certificate, (opt, test)) == []
    assert rf.verify(certificate, (opt, test.subset(np.argsort(test.losses("error")[0])))) == []  # in another order
    assert rf.verify(certificate, (opt, test.subset(np.arange(599)))) != []
    with pytest.raises(rf.InvalidInputError, match="with the whole table"):
        rf.verify(rf.calibrate(test, problem), (opt, test))


def test_looks_that_count_cannot_be_struck_out(tmp_path: Path) -> None:
    """A second question costs confidence: a certificate that is silent about the first one does not match its store."""
    tuned(tmp_path / "run.zarr")
    second = tuned(tmp_path / "run.zarr", budget=40, again=True)
    assert "80 % confidence" in second.verdict()
    assert rf.verify(second, tmp_path / "run.zarr") == []
    (difference,) = rf.verify(replace(second, earlier_looks=()), tmp_path / "run.zarr")
    assert difference.startswith("an earlier use of the testing examples is on record and not in the certificate")
    smaller = tuple(replace(look, delta=0.001) for look in second.earlier_looks)
    assert len(rf.verify(replace(second, earlier_looks=smaller), tmp_path / "run.zarr")) == 1


def test_a_look_with_other_options_of_the_method_is_another_one(tmp_path: Path) -> None:
    first = tuned(tmp_path / "run.zarr", method=rf.ParetoTesting(max_settings=100))
    second = tuned(tmp_path / "run.zarr", method=rf.ParetoTesting(max_settings=90), again=True)
    assert rf.verify(first, tmp_path / "run.zarr") == []
    assert rf.verify(second, tmp_path / "run.zarr") == []
    assert rf.verify(replace(second, earlier_looks=()), tmp_path / "run.zarr") != []


def test_words_of_another_version_are_not_confirmed(tmp_path: Path) -> None:
    """A file may claim another version to be free in its words: a match says so, and what the words must be."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"k": 0, "example": np.arange(600), "error": (rng.random(600) < 0.02).astype(int), "cost": 1.0})
    data.to_parquet(tmp_path / "losses.parquet")
    certificate = tmp_path / "certificate.json"
    limit = ["--limit", "error <= 0.1", "--minimize", "cost"]
    assert riskfront("calibrate", tmp_path / "losses.parquet", *limit, "--out", certificate).returncode == 0
    claimed = json.loads(certificate.read_text())
    del claimed["blake3"]
    assert "not compared" not in riskfront("verify", certificate, tmp_path / "losses.parquet").stdout

    claimed |= {"version": "0.0.1", "verdict": "With 99.99 % confidence, error stays at or below 1 %."}
    certificate.write_text(json.dumps(with_digest(claimed)))
    done = riskfront("verify", certificate, tmp_path / "losses.parquet")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "those of version 0.0.1 and were not compared" in said
    assert "With 90 % confidence, error stays at or below 10 %." in said
    done = riskfront("verify", certificate, tmp_path / "losses.parquet", "--json")
    assert json.loads(done.stdout)["verdict"] == "With 90 % confidence, error stays at or below 10 %."
