"""Conditional writes to S3: create an object only if there is none, or replace it only if nobody has changed it.

pyarrow has no such writes, so these requests are botocore's, with address and region of the same URI and credentials of
the same environment. A tag is the ETag of an object, which changes with its content; None stands for no object.
"""

from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from al_ray.core.errors import BadFile

# How often a write is tried whose object changes at the same time, and changes back.
TRIES = 3
# A tag that no object has.
OTHER = f'"{"0" * 32}"'


class Refused(Exception):
    """The condition of a write did not hold: another process has written or deleted the object. Nothing was written."""


class NoConditions(BadFile):
    """The store does not implement conditional writes."""


class ConditionalStore:
    """A bucket whose objects are read with their tags and written on conditions."""

    def __init__(self, bucket: str, query: str, region: str) -> None:
        """Use a bucket of S3; query: that of its URIs (storage/uri.py)."""
        self.bucket, self.query = bucket, query
        self.client, self.errors = _client(query, region)

    def uri(self, key: str) -> str:
        """Return the URI of an object, for messages."""
        return f"s3://{self.bucket}/{key}" + (f"?{self.query}" if self.query else "")

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Return content and tag of an object; None if there is none."""
        try:
            reply = self.client.get_object(Bucket=self.bucket, Key=key)
            return reply["Body"].read(), reply["ETag"]
        except self.errors as error:
            if _status(error) == 404 and _code(error) != "NoSuchBucket":
                return None
            raise self._error(key, "read", error) from error

    def tag(self, key: str) -> str | None:
        """Return the tag of an object; None if there is none."""
        return self._head(key)[0]

    def write(self, key: str, content: bytes, tag: str | None, writer: str) -> str:
        """Write an object if it has this tag (None: if there is none) and return its new tag; else raise Refused.

        writer: a name of this write, or of the only process that uses it, stored with the object. A request whose
        reply was lost is sent again and then finds the object changed; the name shows that it was changed by itself.
        """
        for _ in range(TRIES):
            try:
                return self._put(key, content, tag, writer)
            except Refused:
                now, author = self._head(key)
                if now is not None and author == writer:
                    return now
                # Otherwise a concurrent request failed to change the object: S3 asks to try again.
                if now != tag:
                    raise
        raise BadFile(f"{self.uri(key)} is being written by another process; wait for it, then rerun the same command")

    def honours_conditions(self, key: str, content: bytes, writer: str) -> bool:
        """Return whether the store refuses two writes of an existing object whose conditions do not hold.

        A store that ignores conditions writes `content`.
        """
        for tag in (None, OTHER):
            try:
                self._put(key, content, tag, writer)
            except Refused:
                continue
            except NoConditions:
                pass
            return False
        return True

    def _put(self, key: str, content: bytes, tag: str | None, writer: str) -> str:
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            reply = self.client.put_object(
                Bucket=self.bucket, Key=key, Body=content, Metadata={"writer": writer}, **condition
            )
            return reply["ETag"]
        except self.errors as error:
            # 404: the object to be replaced is gone. 409: another request wrote it at the same time.
            if _status(error) in (409, 412) or _code(error) == "NoSuchKey":
                raise Refused from error
            if _status(error) == 501:
                raise NoConditions(str(self._error(key, "written", error))) from error
            raise self._error(key, "written", error) from error

    def _head(self, key: str) -> tuple[str | None, str]:
        """Return the tag of an object and the name of its last write; None and "" if there is no object."""
        try:
            reply = self.client.head_object(Bucket=self.bucket, Key=key)
            return reply["ETag"], reply["Metadata"].get("writer", "")
        except self.errors as error:
            if _status(error) == 404:
                return None, ""
            raise self._error(key, "read", error) from error

    def _error(self, key: str, what: str, error: Exception) -> BadFile:
        return store_error(self.uri(key), what, str(error).splitlines()[0])


def store_error(place: object, what: str, reason: str) -> BadFile:
    """Return the error for a request to an object store that failed; what: read or written."""
    return BadFile(
        f"{place} cannot be {what} ({reason}); check the bucket, its address and your credentials, "
        "then rerun the same command"
    )


@cache
def _client(query: str, region: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a client of botocore and the classes of its errors; threads share it."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    # Of the options that pyarrow reads from the query, those that say where the store is.
    options = dict(parse_qsl(query))
    address = options.get("endpoint_override", "")
    if address and "://" not in address:
        address = f"{options.get('scheme', 'https')}://{address}"
    config = Config(
        connect_timeout=10,
        read_timeout=60,
        retries={"mode": "standard", "total_max_attempts": 4},
        # Checksums in trailers are newer than most servers that speak S3.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "virtual" if options.get("force_virtual_addressing") == "true" else "auto"},
    )
    client = get_session().create_client("s3", region_name=region, endpoint_url=address or None, config=config)
    return client, (BotoCoreError, ClientError)


def _status(error: Exception) -> int:
    """Return the HTTP status of a reply that is an error; 0 if there was no reply."""
    return getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _code(error: Exception) -> str:
    return getattr(error, "response", {}).get("Error", {}).get("Code", "")
