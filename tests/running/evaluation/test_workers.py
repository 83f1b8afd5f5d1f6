"""Workers that cannot load what they are given, that die, or that have no room: one sentence, nothing lost."""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

from riskfront._running.evaluation.broadcast import SentPayload
from riskfront._running.evaluation.evaluate import evaluate
from riskfront._running.evaluation.workers import Workers
from riskfront.errors import EvaluationError, StoreError
from tests.support.clusters import dask_cluster

EXAMPLES = np.linspace(0, 1, 20)
CONFIGS = [{"t": i} for i in range(6)]


class Unloadable:
    """Can be packed, but not unpacked."""

    fingerprint = "unloadable"

    def __reduce__(self) -> Any:
        return int, ("not a number",)

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        return {"error": examples > 0.5}


def test_what_cannot_be_loaded_is_said_at_once() -> None:
    for on_error in ("raise", "skip"):
        with pytest.raises(EvaluationError, match=r"a worker can load them; got ValueError: invalid literal") as caught:
            evaluate(Unloadable(), EXAMPLES, CONFIGS, n_jobs=2, on_error=on_error)  # type: ignore[arg-type]
        assert "0 settings evaluated before" in str(caught.value)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_setting_that_ends_its_process_is_named_alone_and_costs_no_other(on_error: Any, tmp_path: Path) -> None:
    def dies(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        (tmp_path / f"{config['t']} {time.time_ns()}").touch()
        if config["t"] == 3:
            os._exit(9)
        return {"error": examples > config["t"] / 10}

    with pytest.raises(
        EvaluationError, match=r"TerminatedWorkerError.* all of 3 tries of the setting {'t': 3}"
    ) as caught:
        evaluate(dies, EXAMPLES, CONFIGS, n_jobs=2, on_error=on_error)
    assert "this setting ends its process, or needs more memory" in str(caught.value)
    assert caught.value.config == {"t": 3}
    assert caught.value.evaluated.n_configs == caught.value.n_evaluated == 5
    assert "\n" not in str(caught.value)
    assert len(list(tmp_path.glob("3 *"))) == 3


def test_where_workers_do_nothing_at_all_no_setting_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*given: Any) -> Any:
        raise ConnectionError("no route to host")

    with monkeypatch.context() as patched:
        patched.setattr(Workers, "_results", gone)
        patched.setattr(Workers, "_healthy", lambda self: False)
        with pytest.raises(
            EvaluationError, match=r"must be reachable; they were not \(ConnectionError: no route.*the cluster"
        ):
            evaluate(lambda config, x: {"error": x > 0.5}, EXAMPLES, CONFIGS, n_jobs=2)

    def dies(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        os._exit(9)

    monkeypatch.setattr(Workers, "_healthy", lambda self: False)
    with pytest.raises(EvaluationError, match="Whether the setting is to blame is not known"):
        evaluate(dies, EXAMPLES, CONFIGS[:1], n_jobs=2)


def test_workers_that_die_twice_cost_nothing(tmp_path: Path) -> None:
    def dies(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        for death in ("first", "second"):
            if config["t"] == 3 and not (tmp_path / death).exists():
                (tmp_path / death).touch()
                os._exit(9)
        return {"error": examples > config["t"] / 10}

    table = evaluate(dies, EXAMPLES, CONFIGS, n_jobs=2, store=tmp_path / "run.zarr")
    expected = evaluate(lambda config, x: {"error": x > config["t"] / 10}, EXAMPLES, CONFIGS)
    assert table.sha256 == expected.sha256


def test_a_temporary_folder_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(np, "save", full)
    with pytest.raises(StoreError, match=r"No space left.*TMPDIR"):
        evaluate(Unloadable(), EXAMPLES, CONFIGS, n_jobs=2)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"nowhere.*No such file.*TMPDIR"):
        evaluate(Unloadable(), EXAMPLES, CONFIGS, n_jobs=2)


@pytest.mark.parametrize("examples", [EXAMPLES, pd.DataFrame({"x": EXAMPLES}), list(EXAMPLES)])
def test_payload_for_a_cluster_can_be_sent_on(examples: Any) -> None:
    import cloudpickle

    broadcast = SentPayload.pack(len, examples)  # type: ignore[arg-type]
    for _ in range(2):  # from one worker to the next
        arrays: list[Any] = []
        data = cloudpickle.dumps(broadcast, protocol=5, buffer_callback=arrays.append)
        broadcast = cloudpickle.loads(data, buffers=[memoryview(array) for array in arrays])
        assert np.array_equal(np.asarray(broadcast.unpack()[1]), np.asarray(examples))
    if not isinstance(examples, list):
        assert np.asarray(examples).tobytes() not in data, "the contents of arrays are not copied"


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function of a module in a folder that this process found after its workers had started."""
    (tmp_path / "riskfront_helper.py").write_text(
        "def losses(config, examples):\n    return {'error': examples > 0.5}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import riskfront_helper  # type: ignore[import-not-found]

    yield riskfront_helper.losses
    sys.modules.pop("riskfront_helper")


def test_workers_find_modules_where_the_process_finds_them(request: pytest.FixtureRequest) -> None:
    joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(4))  # workers live on
    losses = request.getfixturevalue("helper")
    assert evaluate(losses, EXAMPLES, CONFIGS, n_jobs=2).n_configs == 6


def test_so_do_the_workers_of_a_dask_cluster(request: pytest.FixtureRequest) -> None:
    with dask_cluster() as client:
        client.run(os.getpid)
        losses = request.getfixturevalue("helper")
        with joblib.parallel_config(backend="dask"):
            assert evaluate(losses, EXAMPLES, CONFIGS).n_configs == 6
            with pytest.raises(EvaluationError, match="a worker can load them; got ValueError"):
                evaluate(Unloadable(), EXAMPLES, CONFIGS)
