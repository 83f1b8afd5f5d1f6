"""An S3 server of one's own: moto's, in a process of its own."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes import serving

KEYS = {"key": "someone", "secret": "secret"}


def options(port: int) -> dict[str, Any]:
    """What fsspec needs to reach the server."""
    return {**KEYS, "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}}


def requests(log: Path) -> Counter[str]:
    """How many requests of each kind a server with this log has answered."""
    return Counter(re.findall(r'"(GET|PUT|HEAD|POST|DELETE) ', log.read_text()))


#: without asking the network who 127.0.0.1 is, as http.server does
_MOTO = "import socket; socket.getfqdn = str; from moto.server import main; main()"


@contextmanager
def s3(log: Path | None = None) -> Iterator[dict[str, Any]]:
    """Options for a server with an empty bucket, s3://bucket; its requests go to a log."""
    moto = [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p"]
    with serving(lambda port: [*moto, port], log=log) as (_, port):
        bucket = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
        urllib.request.urlopen(bucket, timeout=60).close()
        yield options(port)


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, Any]]:
    """Options for Azurite (npm) with an empty container, az://bucket; it sends no usage data and listens here only."""
    import adlfs

    azurite = ["azurite-blob", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    azurite += ["--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort"]
    with serving(lambda port: [*azurite, port]) as (_, port):
        # the account and the key that Azurite publishes for everybody
        key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        address = f"http://127.0.0.1:{port}/devstoreaccount1"
        account = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};BlobEndpoint={address};"
        options = {"connection_string": account}
        adlfs.AzureBlobFileSystem(**options).mkdir("bucket")
        yield options


@contextmanager
def google() -> Iterator[dict[str, Any]]:
    """Options for gcp-storage-emulator (pip) with an empty bucket, gs://bucket; it ignores conditions of a put."""
    emulator = ["gcp-storage-emulator", "start", "--quiet", "--in-memory", "--default-bucket", "bucket"]
    with serving(lambda port: [*emulator, "--host", "127.0.0.1", "--port", port]) as (_, port):
        yield {"token": "anon", "project": "p", "endpoint_url": f"http://127.0.0.1:{port}"}
