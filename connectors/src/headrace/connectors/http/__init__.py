"""HTTP: a source that receives webhooks, and a sink that sends messages to a URL."""

import asyncio

from headrace.connectors._connector import Implementation
from headrace.connectors.http._parameters import HttpParameters, HttpSinkParameters
from headrace.connectors.http._sending import Denied, HttpError, Unavailable
from headrace.connectors.http._sink import HttpSink
from headrace.connectors.http._source import HttpSource

HTTP = Implementation(HttpParameters, HttpSource, HttpParameters.check)
HTTP_SINK = Implementation(HttpSinkParameters, HttpSink, lambda parameters: asyncio.run(HttpSink(parameters).check()))

__all__ = [
    "HTTP",
    "HTTP_SINK",
    "Denied",
    "HttpError",
    "HttpParameters",
    "HttpSink",
    "HttpSinkParameters",
    "HttpSource",
    "Unavailable",
]
