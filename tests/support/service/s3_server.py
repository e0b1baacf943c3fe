"""An S3 server on loopback, moto's: it speaks the protocol, and proves nothing about durability or consistency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "speech"


def started(port: int = 0) -> ThreadedMotoServer:
    """A server that has the objects of those before it in this process; port 0 takes a free one."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server


@contextmanager
def s3_server(folder: Path) -> Iterator[ThreadedMotoServer]:
    """The server, with an empty bucket; AWS's configuration of this process leads to it."""
    server = started()
    host, port = server.get_host_and_port()
    httpx.post(f"http://{host}:{port}/moto-api/reset").raise_for_status()  # servers of a process share their objects
    (folder / "aws").write_text(f"[default]\nregion = eu-central-1\nendpoint_url = http://{host}:{port}\n")
    (folder / "keys").write_text("[default]\naws_access_key_id = test\naws_secret_access_key = test\n")
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("AWS_CONFIG_FILE", str(folder / "aws"))
            environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "keys"))
            boto3.Session().client("s3").create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
            )
            yield server
    finally:
        server.stop()
