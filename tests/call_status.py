"""The status of calls that tests make."""

from collections.abc import Callable
from typing import Any

import pytest
from grpc.aio import _call

from headrace.sdk.wire import keep_status


@pytest.fixture(autouse=True)
def calls_keep_their_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has calls report how their peer has ended them, even if that crosses a write: grpcio would report INTERNAL, by chance."""
    for kind in (_call.StreamStreamCall, _call.StreamUnaryCall):

        def begin(self: Any, *args: Any, begin: Callable[..., None] = kind.__init__, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            keep_status(self)

        monkeypatch.setattr(kind, "__init__", begin)
