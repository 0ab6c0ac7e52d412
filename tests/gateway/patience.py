"""How the gateway in this process waits for sinks that read nothing, told by events instead of by time."""

import asyncio

import pytest
from tests.gateway.wire import DEADLINE_S

from headrace.gateway.core.sinks import SinkSession

PATIENCE_MS = 600_000
"""A patience of the gateway that no test exhausts, however busy the machine is."""


class Patience:
    """Notes whenever the gateway grants a sink, which has not read what it is sent, its whole patience again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._granted, real = asyncio.Semaphore(0), SinkSession.note_activity

        def note(session: SinkSession) -> None:
            before = session._writing and session._writing.when()
            real(session)
            after = session._writing and session._writing.when()
            if before and after and after > before:
                self._granted.release()

        monkeypatch.setattr(SinkSession, "note_activity", note)

    async def granted(self, times: int) -> None:
        """Waits until it has been granted several times."""
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(times):
                await self._granted.acquire()
