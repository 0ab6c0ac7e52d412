"""The endpoint and the region of S3 in the environment: deltalake and the tools of AWS read them there, and Arrow does not."""

import os

TIMEOUT_S = 60.0
"""How long Arrow waits for a part of an answer of S3. By default, it waits for three seconds, which a busy machine exceeds."""
_ENDPOINTS, _REGIONS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("AWS_REGION", "AWS_DEFAULT_REGION")


def endpoint() -> str | None:
    """The URL of the server; None for AWS itself."""
    return _first(_ENDPOINTS)


def region() -> str | None:
    """The region; None if it is not known."""
    return _first(_REGIONS)


def of_pyiceberg() -> dict[str, str]:
    """Both, and the timeout, as properties of pyiceberg."""
    found = {"s3.endpoint": endpoint(), "s3.region": region(), "s3.request-timeout": str(TIMEOUT_S)}
    return {name: value for name, value in found.items() if value}


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
