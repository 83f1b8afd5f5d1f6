"""Workers that cannot load what they are given, that die, or that have no room: one sentence, nothing lost."""

import logging
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

from riskfront.errors import EvaluationError, StoreError
from riskfront.evaluation.broadcast import SentCargo
from riskfront.evaluation.evaluation import evaluate

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
def test_a_worker_that_dies(on_error: Any, tmp_path: Path) -> None:
    def dies(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if config["t"] == 3:
            while len(list(tmp_path.iterdir())) < 3:  # else a result on its way would be lost with the workers
                time.sleep(0.01)
            time.sleep(0.5)
            os._exit(9)
        (tmp_path / str(config["t"])).touch()
        return {"error": examples > config["t"] / 10}

    with pytest.raises(EvaluationError, match=r"workers must live .*TerminatedWorkerError.*{'t': 3}") as caught:
        evaluate(dies, EXAMPLES, CONFIGS, n_jobs=2, on_error=on_error)
    assert caught.value.evaluated.n_configs == caught.value.n_evaluated >= 3
    assert "\n" not in str(caught.value)


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
def test_cargo_for_a_cluster_can_be_sent_on(examples: Any) -> None:
    import cloudpickle

    cargo = SentCargo.pack(len, examples)  # type: ignore[arg-type]
    for _ in range(2):  # from one worker to the next
        arrays: list[Any] = []
        data = cloudpickle.dumps(cargo, protocol=5, buffer_callback=arrays.append)
        cargo = cloudpickle.loads(data, buffers=[memoryview(array) for array in arrays])
        assert np.array_equal(np.asarray(cargo.unpack()[1]), np.asarray(examples))
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
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as client:
        client.run(os.getpid)
        losses = request.getfixturevalue("helper")
        with joblib.parallel_config(backend="dask"):
            assert evaluate(losses, EXAMPLES, CONFIGS).n_configs == 6
            with pytest.raises(EvaluationError, match="a worker can load them; got ValueError"):
                evaluate(Unloadable(), EXAMPLES, CONFIGS)
