"""Audio files in a bucket of S3 or of what speaks its protocol (MinIO, Ceph), as `s3://BUCKET/PREFIX`.

Endpoint, region and keys are those of AWS's own configuration: AWS_CONFIG_FILE (`endpoint_url`, `region`),
AWS_SHARED_CREDENTIALS_FILE, or a role of the host.
"""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from voxyard.service.audio.files import BLOCK, MARKER
from voxyard.service.documents.records import is_id
from voxyard.service.documents.server_answers import ServerAnswers
from voxyard.service.errors import NoRoomError, StoreError, StoreUnavailableError

_log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
"""Bytes of a part of an upload; S3 wants at least 5 MiB of all but the last."""
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/?")
_MISSING = ("404", "NoSuchKey", "NotFound")
_FULL = ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507")
_MOST_DELETED = 1000  # objects of a request
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 3, 10, 2


def open_bucket(url: str) -> AudioBucket:
    """The bucket of a URL.

    Raises:
        StoreError: the URL is not one of a bucket, or boto3 is not installed.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise StoreError(f"--shelf {url}: expected a directory, or s3://BUCKET/PREFIX with the name of a bucket")
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise StoreError(f"--shelf {url} needs boto3: pip install 'voxyard[s3]'") from error
    from botocore.exceptions import BotoCoreError

    settings = Config(
        connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries={"total_max_attempts": _ATTEMPTS}
    )
    try:
        client = boto3.Session().client("s3", config=settings)
    except (BotoCoreError, ValueError) as error:
        raise StoreError(f"--shelf {url}: AWS's configuration cannot be used: {error}") from error
    return AudioBucket(client, found[1], f"{found[2]}/" if found[2] else "")


class AudioBucket:
    """Objects `<prefix><id>/<name>` of a bucket. An upload that is not completed leaves no object.

    Their bytes are not counted here: the database knows them.
    """

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self._answers = ServerAnswers()

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def create(self) -> None:
        """The bucket must be there: it is not made. These errors alone have its name: no client sees a start."""
        try:
            with self._asked():
                self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except StoreError as error:
            raise type(error)(f"{self}: {error}") from error

    def sweep(self) -> None:
        """Nothing: uploads that nobody completes are the business of a lifecycle rule of the bucket."""

    @contextmanager
    def write(self, id: str, name: str) -> Iterator[BinaryIO]:
        """A file whose parts are sent as they fill; the object appears at the end of the block."""
        with self._asked():
            upload = _Upload(self._client, self._bucket, self._key(id, name))
            try:
                yield cast("BinaryIO", upload)
                upload.complete()
            except BaseException:
                upload.abort()
                raise

    def read(self, id: str, name: str, start: int = 0, size: int | None = None) -> bytes:
        """As AudioFiles."""
        if size == 0:
            return b""
        with self._asked():
            return bytes(self._get(id, name, start, None if size is None else start + size).read())

    def stream(self, id: str, name: str, start: int, end: int) -> Iterator[bytes]:
        """As AudioFiles."""
        if start >= end:
            return
        with self._asked():
            yield from self._get(id, name, start, end).iter_chunks(BLOCK)

    def size(self, id: str, name: str) -> int | None:
        """As AudioFiles."""
        try:
            with self._asked():
                return int(self._client.head_object(Bucket=self._bucket, Key=self._key(id, name))["ContentLength"])
        except FileNotFoundError:
            return None

    def path(self, _id: str, _name: str) -> Path | None:
        """None: no file of this machine."""
        return None

    def remove(self, id: str, suffix: str = "") -> None:
        """As AudioFiles."""
        with self._asked():
            keys = [each["Key"] for each in self._objects(f"{self._prefix}{id}/") if each["Key"].endswith(suffix)]
            for at in range(0, len(keys), _MOST_DELETED):
                gone = [{"Key": key} for key in keys[at : at + _MOST_DELETED]]
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": gone, "Quiet": True})
                if failed := answer.get("Errors"):
                    raise StoreError(f"{len(failed)} objects cannot be deleted: {failed[0].get('Code')}")

    def names(self, id: str) -> tuple[str, ...]:
        """As AudioFiles."""
        prefix = f"{self._prefix}{id}/"
        with self._asked():
            return tuple(each["Key"].removeprefix(prefix) for each in self._objects(prefix))

    def ids(self) -> tuple[str, ...]:
        """As AudioFiles."""
        with self._asked():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"
            )
            found = (each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ()))
            names = (prefix.removeprefix(self._prefix).rstrip("/") for prefix in found)
            return tuple(sorted(name for name in names if is_id(name)))

    def used_bytes(self) -> int | None:
        """None: not counted here."""
        return None

    def free_bytes(self) -> float:
        """Infinite: a bucket says that it is full when it is."""
        return math.inf

    def marker(self) -> str | None:
        """As AudioFiles."""
        try:
            with self._asked(always=True):
                answer = self._client.get_object(Bucket=self._bucket, Key=f"{self._prefix}{MARKER}")
                return str(answer["Body"].read(1000).decode("ascii", "replace")).strip()
        except FileNotFoundError:
            return None

    def mark(self, token: str) -> str:
        """As AudioFiles; the server lets one of two services win."""
        from botocore.exceptions import ClientError

        with self._asked():
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=f"{self._prefix}{MARKER}", Body=f"{token}\n".encode(), IfNoneMatch="*"
                )
            except ClientError as error:
                if error.response["ResponseMetadata"].get("HTTPStatusCode") not in (409, 412):
                    raise
                return self.marker() or token
        return token

    @contextmanager
    def _asked(self, *, always: bool = False) -> Iterator[None]:
        """Turns boto3's errors into FileNotFoundError, NoRoomError or StoreError.

        A bucket that is away is not asked, unless `always`: those who would wait for it use up the service's threads.
        """
        import botocore.exceptions as of

        if self._answers.away and not always:
            raise _unavailable()
        try:
            yield
        except of.ClientError as error:
            found = _refusal(error)
            self._note(found, error)
            raise found from error
        except of.NoCredentialsError as error:
            raise StoreError(
                "no keys: put them into a file named by AWS_SHARED_CREDENTIALS_FILE, or give the host a role"
            ) from error
        except (of.ConnectionError, of.HTTPClientError) as error:
            self._note(found := _unavailable(), error)
            raise found from error
        except of.BotoCoreError as error:
            self._note(found := StoreError("the bucket cannot be read or written"), error)
            raise found from error
        else:
            self._answers.answered()

    def _note(self, found: Exception, error: Exception) -> None:
        """Notes how a question ended; an error of the bucket is logged with its address."""
        if isinstance(found, StoreUnavailableError):
            self._answers.missed()
        else:
            self._answers.answered()
        if isinstance(found, StoreError) and self._answers.is_to_be_told():
            _log.warning("the audio files in %s cannot be used: %s", self, error)

    def _get(self, id: str, name: str, start: int, end: int | None) -> Any:
        whole = {} if not start and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        return self._client.get_object(Bucket=self._bucket, Key=self._key(id, name), **whole)["Body"]

    def _objects(self, prefix: str) -> Iterator[dict[str, Any]]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            yield from page.get("Contents", ())

    def _key(self, id: str, name: str) -> str:
        return f"{self._prefix}{id}/{name}"


class _Upload:
    """File to write that becomes an object: in one request where it is small, else in parts."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._where = client, {"Bucket": bucket, "Key": key}
        self._buffer = io.BytesIO()
        self._upload: str | None = None
        self._parts: list[dict[str, Any]] = []

    def write(self, content: bytes) -> int:
        """Takes bytes; sends a part where enough have come."""
        self._buffer.write(content)
        if self._buffer.tell() >= PART_BYTES:
            self._send()
        return len(content)

    def complete(self) -> None:
        """Sends the rest; the object is there."""
        if self._upload is None:
            self._client.put_object(**self._where, Body=self._buffer.getvalue())
            return
        if self._buffer.tell():
            self._send()
        self._client.complete_multipart_upload(
            **self._where, UploadId=self._upload, MultipartUpload={"Parts": self._parts}
        )

    def abort(self) -> None:
        """Gives up the parts that were sent; where even that is refused, a lifecycle rule of the bucket has to."""
        from botocore.exceptions import BotoCoreError, ClientError

        if self._upload is not None:
            with suppress(BotoCoreError, ClientError):
                self._client.abort_multipart_upload(**self._where, UploadId=self._upload)

    def _send(self) -> None:
        if self._upload is None:
            self._upload = self._client.create_multipart_upload(**self._where)["UploadId"]
        number = len(self._parts) + 1
        answer = self._client.upload_part(
            **self._where, UploadId=self._upload, PartNumber=number, Body=self._buffer.getvalue()
        )
        self._parts.append({"ETag": answer["ETag"], "PartNumber": number})
        self._buffer = io.BytesIO()


def _unavailable(reason: str = "") -> StoreUnavailableError:
    return StoreUnavailableError(f"the audio files cannot be reached now{reason}: retry in 5 s")


def _refusal(error: Any) -> Exception:
    """The service's own error for a refusal of the server; clients see it."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _MISSING:
        return FileNotFoundError(str(error))
    if code in _FULL or status == 507:
        return NoRoomError("the place of the audio files is full: delete documents, or give it more room")
    if code == "NoSuchBucket":
        return StoreError("there is no such bucket: make it, or choose another --shelf")
    if code == "RequestTimeTooSkewed":
        return StoreError("the bucket refuses the time of this host's clock: set it, and keep it by NTP")
    if status in (401, 403):
        return StoreError(
            f"the bucket refuses the keys ({code}): expected ones that may list, read, write and delete there, in the "
            "file that AWS_SHARED_CREDENTIALS_FILE names, or a role of the host"
        )
    if status >= 500:
        return _unavailable(f" ({code})")
    return StoreError(f"the bucket cannot be read or written ({code or status})")
