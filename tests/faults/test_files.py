"""Hostile and damaged input is answered by a sentence; what counts as written is on the disk."""

from __future__ import annotations

import base64
import json
import os
import signal
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._support import files
from riskfront._support.checked_json import seal
from tests.support.processes import finished, output, started, wait_until

DEEP, LONG = "[" * 200_000, "9" * 5000


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, LONG, f'{{"schema_version": {LONG}}}', "\x00", '{"a": 1'])
@pytest.mark.parametrize("command", ["inspect", "verify", "report", "check", "monitor"])
def test_json_that_is_too_much(text: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from riskfront._cli import main

    (tmp_path / "c.json").write_text(text)
    given = [command, str(tmp_path / "c.json"), *(["t.csv"] if command in ("verify", "check", "monitor") else [])]
    with pytest.raises(SystemExit) as done:
        main(given)
    assert done.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "c.json" in said.replace("\n", "")


@pytest.mark.parametrize("text", [DEEP, LONG, f"[space]\na = {DEEP}", f"[space]\na = {LONG}", "\x00"])
def test_spaces_and_policies_that_are_too_much(text: str, tmp_path: Path) -> None:
    """tests/data/logs/test_folders.py has logs."""
    for load, name, words in ((rf.Space.from_toml, "space.toml", "TOML"), (rf.Policy.load, "p.json", "must be")):
        (tmp_path / name).write_text(text)
        with pytest.raises(rf.InvalidInputError, match=words):
            load(tmp_path / name)
        assert (tmp_path / name).read_text() == text


FORGED: list[Callable[[dict[str, Any]], Any]] = [
    lambda about: about["groups"]["g"].update(codes=base64.b64encode(zlib.compress(bytes(1 << 27))).decode()),
    lambda about: about["groups"]["g"].update(codes="AAAA"),
    lambda about: about["groups"]["g"].update(levels=["a"]),
    lambda about: about.pop("configs"),
    lambda about: about["configs"].update(k=[1, 2]),
    lambda about: about["bounds"].update(cost=[1]),
    lambda about: DEEP,
    lambda about: "[]",
]


@pytest.mark.parametrize("forge", FORGED)
def test_a_table_that_somebody_forged(forge: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    """With a digest of its own, which is no signature: a sentence, without unpacking what is too much."""
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    error = np.zeros((5, 300), dtype=bool)
    rf.LossTable([{"k": i} for i in range(5)], {"error": error, "cost": error}, groups={"g": np.arange(300) % 3}).save(
        path
    )
    content = pq.read_table(path)
    (key,) = [name for name in content.schema.metadata if name.startswith(b"riskfront")]
    about = json.loads(content.schema.metadata[key])
    forged = forge(about)
    text = forged if isinstance(forged, str) else json.dumps(about)
    pq.write_table(content.replace_schema_metadata({key: text}), path)
    seal(path)
    for door in (rf.LossTable.load, lambda path: rf.calibrate(path, rf.Problem("error <= 0.1", minimize="cost"))):
        with pytest.raises(rf.InvalidInputError, match=r"the table '.*' (must be as it was saved|is incomplete)"):
            door(path)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "elsewhere" / "file.txt")
    files.write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "elsewhere" / "file.txt").read_text() == "new"
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere" / "file.txt")
    with pytest.raises(rf.StoreError, match="nowhere"):
        files.write_text(tmp_path / "dangling.txt", "new")


def test_what_counts_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content before the name, the name before the call returns."""
    done: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "replace", "link")}

    def noted(name: str) -> Any:
        def call(*given: Any) -> Any:
            kind = name if name != "fsync" else "folder" if os.path.isdir(f"/proc/self/fd/{given[0]}") else "file"
            done.append(kind)
            return real[name](*given)

        return call

    for name in real:
        monkeypatch.setattr(os, name, noted(name))
    table = rf.LossTable([{"k": 0}], {"error": [[0] * 300], "cost": [[1] * 300]})
    rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost")).save(tmp_path / "c.json")
    assert done == ["file", "replace", "folder"]
    from riskfront._data.stores.storage import LocalStorage

    done.clear()
    assert LocalStorage(tmp_path).create("uses/0000.json", b"{}")
    assert done == ["file", "link", *["folder"] * 3], "that of the file, the storage, and where the storage is"


def _write_zip(path: Path, members: list[tuple[str, bytes, int, int]]) -> None:
    """A ZIP file of (name, packed bytes, size that is declared, way of packing); zipfile would write the true sizes."""
    content, directory = b"", b""
    for name, packed, size, way in members:
        crc = zlib.crc32(packed) if way == zipfile.ZIP_STORED else 0
        about = struct.pack("<HHHHHIIIHH", 20, 0, way, 0, 0, crc, len(packed), size, len(name), 0)
        directory += struct.pack("<IH", 0x02014B50, 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, len(content))
        directory += name.encode()
        content += struct.pack("<I", 0x04034B50) + about + name.encode() + packed
    count = len(members)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(content), 0)
    path.write_bytes(content + directory + end)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="memory is read from /proc")
@pytest.mark.parametrize(("declared", "words"), [(3 << 30, "must unpack to at most 512 MB"), (100, "as it says")])
@pytest.mark.parametrize("member", ["summaries.json", "samples/1.json"])
def test_a_log_that_unpacks_to_gigabytes(member: str, declared: int, words: str, tmp_path: Path) -> None:
    """3 MB took 6.2 GB. Refused by the size it declares, or by what is really in it."""
    import pyarrow as pa

    sink, spaces = pa.BufferOutputStream(), b" " * (64 << 20)
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(48):
            stream.write(spaces)
    header = json.dumps({"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}}).encode()
    packed = [("header.json", header, len(header), 0), (member, sink.getvalue().to_pybytes(), declared, 93)]
    _write_zip(tmp_path / "bomb.eval", packed)
    command = [
        sys.executable,
        "-c",
        _MEASURED.replace("{peak}", _PEAK),
        "import",
        "inspect",
        "bomb.eval",
        "--out",
        "runs.parquet",
    ]
    done = finished(command, cwd=tmp_path)
    peak = float(done.stdout.splitlines()[-1])
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
    assert peak < 0.6
    assert not (tmp_path / "runs.parquet").exists()


#: largest memory of a process in GB; what getrusage says counts that of the process which started it, too
_PEAK = """
from pathlib import Path
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6)
"""
_MEASURED = """
import sys
from riskfront._cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
{peak}
sys.exit(status)
"""

_GROUPS = """
import sys, warnings
import numpy as np
import riskfront as rf

levels, n, settings = int(sys.argv[1]), int(sys.argv[2]), 50
noise = np.random.default_rng(0).random(n, dtype=np.float32)
error = np.stack([np.roll(noise, i) < 0.002 * i / settings for i in range(settings)])
configs = [{"k": i, "cost": 1 - i / settings} for i in range(settings)]
even = np.arange(n) % levels
problem = rf.Problem([rf.Limit("error", at_most=0.8, per="g")], minimize="cost")
print(bool(rf.calibrate(rf.LossTable(configs, {"error": error}, groups={"g": even}), problem)))
even[even == 0] = 1
even[0] = 0
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    print(bool(rf.calibrate(rf.LossTable(configs, {"error": error}, groups={"g": even}), problem)))
print(said[0].message)
{peak}
"""
MANY = [(10_000, 100_000, 0.6)] + ([(100_000, 1_000_000, 2.0)] if os.environ.get("RISKFRONT_FAULTS") else [])


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="memory is read from /proc")
@pytest.mark.parametrize(("levels", "examples", "most"), MANY)
def test_a_limit_in_very_many_groups(levels: int, examples: int, most: float) -> None:
    """An array of examples x groups took all memory. A group that is too small is named before anything is tested."""
    command = [sys.executable, "-c", _GROUPS.replace("{peak}", _PEAK), str(levels), str(examples)]
    passed, failed, said, peak = output(command, 280).splitlines()
    assert (passed, failed) == ("True", "False")
    assert f"1 of {levels:,} groups of 'g' have fewer than" in said
    assert float(peak) < most


_CLIENT = """
import os, sys, time
import numpy as np
import riskfront as rf

def losses(config, examples):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep(0.2)
    return {"error": examples < 0.1}

if __name__ == "__main__":
    rf.evaluate(losses, np.linspace(0, 1, 50), [{"k": k} for k in range(5000)], n_jobs=2)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_workers_end_with_a_killed_client(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "client.py").write_text(_CLIENT)
    pids = tmp_path / "pids"
    with started([sys.executable, tmp_path / "client.py", pids]) as client:
        wait_until(lambda: len(list(pids.iterdir())) >= 2 or client.status() is not None, "two workers work", 90)
        client.send(signal.SIGKILL)  # the client alone
        assert client.wait() == -signal.SIGKILL
        workers = [path.name for path in pids.iterdir()]
        wait_until(lambda: not any(_lives(name) for name in workers), "the workers have ended with their client", 20)


def _lives(pid: str) -> bool:
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_tables_of_a_file_that_changes_are_checked_again(tmp_path: Path) -> None:
    """What was checked once is not trusted after it changed."""
    table = rf.LossTable([{"k": 0}], {"error": [[0] * 300], "cost": np.ones((1, 300))})
    table.save(tmp_path / "t.parquet")
    assert json.loads(json.dumps(rf.LossTable.load(tmp_path / "t.parquet").n_examples)) == 300
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[60] ^= 4
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(rf.StoreError, match="changed or damaged"):
        rf.LossTable.load(tmp_path / "t.parquet")


@pytest.mark.parametrize("text", [DEEP, LONG, '{"a":' * 100_000])
def test_outcomes_that_are_too_much(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from riskfront._cli import main

    table = rf.LossTable([{"k": 0}], {"error": [[0] * 300], "cost": [[1] * 300]})
    rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost")).save(tmp_path / "c.json")
    (tmp_path / "outcomes.jsonl").write_text(f'{{"error": 0}}\n{text}\n')
    with pytest.raises(SystemExit) as done:
        main(["monitor", str(tmp_path / "c.json"), str(tmp_path / "outcomes.jsonl")])
    assert done.value.code == 2
    assert "line 2 of the new ones" in " ".join(capsys.readouterr().err.split())
