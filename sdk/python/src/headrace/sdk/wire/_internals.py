"""All uses of private parts of grpcio. No other module uses them.

`tests/sdk/python/test_internals.py` names each of them, and fails if a release lacks one or changes its form.
"""

from typing import Any


class _KeepsStatus:
    """The core of a call, without the method that replaces the status of the peer by INTERNAL."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def set_internal_error(self, text: str) -> None:
        """Does nothing: the status of the peer is on its way."""


def keep_status(call: Any) -> None:
    """Makes a call report the status with which the peer ended it, even if that crosses a write.

    Without it, grpcio's `write` fails with INTERNAL and "Internal error from Core" if the call ends meanwhile. The connector
    would then reconnect whatever the gateway has said: for instance after a takeover, so that two instances never stop.
    """
    core = getattr(call, "_cython_call", None)
    if core is not None:
        call._cython_call = _KeepsStatus(core)
