"""``python -m tests.faults``: try every fault, print what became of it, and write docs/compare/faults.md."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.bit_flips import KINDS, PLACES, flip
from tests.support.processes import finished

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compare" / "faults.md"
FAILED = "**NO**"


@dataclass(frozen=True)
class Fault:
    """What is done, what must come of it, and the tests that do it."""

    done: str
    expected: str
    tests: str


FAULTS = (
    Fault(
        "two processes put different questions to one `tune` store at the same moment, on a disk with 50 ms of delay",
        "one is refused; with `again=True` the second states 80 % confidence",
        "test_same_moment.py::test_on_a_disk",
    ),
    Fault("three processes do so in S3 (moto)", "the same", "test_same_moment.py::test_in_object_storage"),
    Fault(
        "two processes put different questions to one accelerated folder at the same moment; half of their texts are the same",
        "at least one of them counts the question of the other",
        "test_same_moment.py -k texts",
    ),
    Fault(
        "a service that ignores the condition of a conditional put",
        "recognised before anything is tested; a sentence says where to record instead",
        "test_same_moment.py::test_storage_that_cannot_reserve",
    ),
    Fault("a file system without links", "of eight who create a file one succeeds", "test_same_moment.py -k links"),
    Fault(
        "a limit in each of 10^5 groups of 10^6 examples, 50 settings",
        "less than 2 GB; a group with too few examples to ever pass is named before anything is tested",
        "test_files.py -k many_groups",
    ),
    Fault(
        "two processes tell one sequential run (`calibrate --sequential`) of new examples at the same moment",
        "one waits for its turn by a sentence; when it asks again, the run knows the examples of both",
        "test_same_moment.py -k with_one_state",
    ),
    Fault("the markers of a store are cut off", "a sentence, never fewer settings", "test_bit_flips.py -k cut"),
    Fault("a marker names `../`", "a sentence; nothing outside is read", "test_bit_flips.py -k lead_out"),
    Fault(
        "both workers of a Dask cluster are killed, at once and up to a second apart",
        "the same certificate as without; `verify` agrees",
        "test_killed_workers.py -k both_workers",
    ),
    Fault(
        "a setting kills every Dask worker that evaluates it",
        "this setting is named after three tries; the others are in the store",
        "test_killed_workers.py -k is_named",
    ),
    Fault(
        "one worker and two workers of a Ray cluster are killed",
        "the same certificate as without; `verify` agrees",
        "test_killed_workers.py -k ray",
    ),
    Fault(
        "a run is stopped and goes on with another number of workers (1, 2, 3); one with `batch_size=` has any number of them",
        "the certificate that the first number would have given; the same certificate",
        "../running/tuning/test_run_record.py -k 'number_of_workers or other_workers'",
    ),
    Fault(
        "`storage_options` at every door, wrong ones in the environment",
        "they reach the service; a sentence",
        "test_object_storage.py -k options",
    ),
    Fault(
        "S3 is down, or its bucket is missing",
        "a sentence within a minute",
        "test_object_storage.py -k 'down or wrong'",
    ),
    Fault(
        "JSON and TOML nested 200,000 deep, numbers of 5,000 digits",
        "a sentence and status 2",
        "test_files.py -k too_much",
    ),
    Fault(
        "an `.eval` file of less than a megabyte that unpacks to 3 GB, and says so or says 100 bytes",
        "refused in less than .6 GB; nothing is written",
        "test_files.py -k gigabytes",
    ),
    Fault("a policy whose kind or shares make no sense", "a sentence", "test_files.py -k no_sense"),
    Fault("`--out` is a link", "the file that it names is written; the link stays", "test_files.py -k link"),
    Fault(
        "a loss of power after a certificate or a use was written",
        "content and name were flushed (fsync) in this order; the loss itself is not simulated",
        "test_files.py -k on_the_disk",
    ),
    Fault(
        "a disk that is full (tmpfs) when a certificate, report, policy, monitor, table, trace, use or setting is written",
        "a sentence; nothing half-written; what was there stays; the same call goes on when there is room",
        "test_full_disk.py",
    ),
    Fault(
        "100 settings that are quickly evaluated into S3 (moto), calibrated from there, and tuned there",
        "fewer than 60, 60 and 150 requests (each loss alone: 505, 404 and 1,108)",
        "test_object_storage.py -k few_requests",
    ),
    Fault("kill -9 of a client with two workers", "they end within seconds", "test_files.py -k killed_client"),
    Fault(
        "large bodies, endless headers, slow clients and many connections at the example server",
        "refused or hung up on",
        "test_hostile_clients.py",
    ),
)


def main() -> int:
    started = time.perf_counter()
    rows, fine = [], True
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = flip(kind, Path(folder))
        fine &= result.survived
        rows.append([name, result.found, result.harmless, len(result.changed), len(result.raw)])
        print(*rows[-1], flush=True)
    tried = []
    for fault in FAULTS:
        became = _became(fault.tests)
        fine &= became != FAILED
        tried.append([fault.done, fault.expected, became])
        print(f"{became:10}", fault.done, flush=True)
    PAGE.write_text(_page(rows, tried, time.perf_counter() - started), encoding="utf-8")
    return 0 if fine else 1


def _became(tests: str) -> str:
    """What became of a fault; tests that were skipped survived nothing."""
    file, _, names = tests.partition(" -k ")
    chosen = ["-k", names.strip("'")] if names else []
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/faults/{file}", *chosen]
    done = finished(command, 1800, cwd=ROOT, env={"RISKFRONT_FAULTS": "1"})  # full sizes
    if done.returncode:
        print(done.stdout[-3000:], file=sys.stderr)
        return FAILED
    return "not tried" if " skipped" in done.stdout.splitlines()[-1] else "yes"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _page(flips: Sequence[Sequence[object]], tried: Sequence[Sequence[object]], seconds: float) -> str:
    return f"""# Faults, tried and survived

Made by `make faults`, which does all of this with real processes and servers; it took {seconds / 60:.0f} minutes.
What is promised and what is not: [security](../security.md).

{_table(["what was done", "what must come of it", "so it was"], tried)}

## One bit turned around

At {PLACES} random places of each kind of file. A flip must be found, or have no effect on anything that is read: damage to
what riskfront does not read (the description of a store's arrays for Zarr), white space, or the name of the digest.
Weights, configuration and tokenizer of an accelerated folder are tried in `tests/transformers/test_adaptive_classifier.py`.
Training steps and sorted tables are made again when they are damaged, and a training begins anew without its checkpoint: that
counts as found.

{_table(["file", "found", "without effect", "changed a result", "raw error"], flips)}

Not tried, and not promised: damage that somebody makes on purpose and signs with a digest of its own; a digest is no signature,
but `riskfront verify` recomputes every number of a certificate.

Object storage is tried with emulators, never with the services themselves: S3 with moto's server in the rows above.
Azure (Azurite, adlfs) and Google Cloud Storage (gcp-storage-emulator, gcsfs) are no rows, because `make faults` does
not install their emulators; `tests/faults/test_other_clouds.py` tries them where they are on the path. On Azurite
`evaluate`, `LossStore`, `calibrate` and `tune` work, and of three processes that put different questions at the same
moment one is answered. The emulator of Google Cloud Storage ignores the condition of a conditional put
(`ifGenerationMatch=0`, which gcsfs sends): `tune` recognises this and stops before it tests anything, and works with
`looks=` on a local folder. Conditional puts on Google Cloud Storage were therefore not tried.
"""


if __name__ == "__main__":
    sys.exit(main())
