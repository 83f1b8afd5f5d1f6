"""An S3 server of one's own: moto's, in a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEYS = {"key": "someone", "secret": "secret"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def options(port: int) -> dict[str, Any]:
    """What fsspec needs to reach the server."""
    return {**KEYS, "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}}


def requests(log: Path) -> Counter[str]:
    """How many requests of each kind a server with this log has answered."""
    return Counter(re.findall(r'"(GET|PUT|HEAD|POST|DELETE) ', log.read_text()))


@contextmanager
def s3(log: Path | None = None) -> Iterator[dict[str, Any]]:
    """Options for a server with an empty bucket, s3://bucket; its requests go to a log."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with open(log or os.devnull, "w") as errors:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        for _ in range(200):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")).close()
        yield options(port)
    finally:
        server.terminate()
        server.wait()


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, Any]]:
    """Options for Azurite (npm) with an empty container, az://bucket; it sends no usage data and listens here only."""
    import adlfs

    port = free_port()
    place = ["--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with _program(["azurite-blob", "--silent", "--disableTelemetry", "--skipApiVersionCheck", *place], port):
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
    port = free_port()
    place = ["--host", "127.0.0.1", "--port", str(port), "--default-bucket", "bucket"]
    with _program(["gcp-storage-emulator", "start", "--quiet", "--in-memory", *place], port):
        yield {"token": "anon", "project": "p", "endpoint_url": f"http://127.0.0.1:{port}"}


@contextmanager
def _program(command: list[str], port: int) -> Iterator[None]:
    """A server that answers on a port, and ends afterwards."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait()
