"""The generated stubs of protocol version 1."""

import headrace.contract  # noqa: F401 - before the stubs import gRPC
