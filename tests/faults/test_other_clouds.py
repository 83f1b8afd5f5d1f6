"""Azure and Google Cloud Storage, by emulators: skipped where azurite-blob or gcp-storage-emulator is not on the path."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.open_storage import RemoteStorage
from tests.faults import servers
from tests.faults.test_object_storage import PROBLEM, SETTINGS, Losses, examples
from tests.faults.test_same_moment import ask, check

SPACE = rf.Space(k=rf.Int(0, 30))


def needs(program: str, package: str) -> None:
    pytest.importorskip(package)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on the path")


def evaluate_and_calibrate(base: str, given: Any) -> None:
    table = rf.evaluate(Losses(), examples(), SETTINGS, store=f"{base}/run.zarr", **given)
    assert LossStore(f"{base}/run.zarr", **given).table(SETTINGS).sha256 == table.sha256
    certificate = rf.calibrate(f"{base}/run.zarr", PROBLEM, **given)
    assert certificate
    assert rf.verify(certificate, f"{base}/run.zarr", **given) == []


def tune_once(call: Any) -> None:
    """The same question again gives the same certificate; another one is refused."""
    tuned = rf.tune(Losses(), examples(), SPACE, PROBLEM, **call)
    assert rf.tune(Losses(), examples(), SPACE, PROBLEM, **call).to_dict() == tuned.to_dict()
    with pytest.raises(rf.SpentExamplesError):
        rf.tune(Losses(), examples(), SPACE, rf.Problem("error <= 0.1", minimize="cost"), **call)


def missing_bucket(url: str, given: Any) -> None:
    with pytest.raises(rf.StoreError, match=r"cannot write to the store '.*nowhere-there/run\.zarr': .*(no|not) "):
        rf.evaluate(Losses(), examples(), SETTINGS, store=url, **given)


def test_azure(tmp_path: Path) -> None:
    needs("azurite-blob", "adlfs")
    with servers.azure(tmp_path) as options:
        given: Any = {"storage_options": options}
        evaluate_and_calibrate("az://bucket", given)
        storage = RemoteStorage("az://bucket/x", options)
        assert storage.exclusive
        assert (storage.create("uses/0", b"a"), storage.create("uses/0", b"b")) == (True, False)
        assert storage.read("uses/0") == b"a"
        tune_once({"search": "grid", "store": "az://bucket/tune.zarr", **given})
        for again in (False, True):
            store, meeting = f"az://bucket/{again}.zarr", tmp_path / str(again)
            check(ask(store, options, meeting, askers=3, delay=0.02, again=again), again=again)
        missing_bucket("az://nowhere-there/run.zarr", given)


def test_google_cloud_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator ignores the condition of a put: that is recognised, and uses are recorded in a folder."""
    monkeypatch.setenv(
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false"
    )  # asks over gRPC, which the emulator does not speak
    needs("gcp-storage-emulator", "gcsfs")
    with servers.google() as options:
        given: Any = {"storage_options": options}
        evaluate_and_calibrate("gs://bucket", given)
        assert not RemoteStorage("gs://bucket/x", options).exclusive
        call: Any = {"search": "grid", "store": "gs://bucket/tune.zarr", **given}
        with pytest.raises(rf.StoreError, match="create an object only if there is none"):
            rf.tune(Losses(), examples(), SPACE, PROBLEM, **call)
        tune_once({**call, "looks": tmp_path / "uses"})
        missing_bucket("gs://nowhere-there/run.zarr", given)
