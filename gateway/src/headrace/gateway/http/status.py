"""The status of a gateway as HTTP shows it: at most a second old, and converted once however many ask."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NotRequired, TypeVar

from pydantic_core import to_json
from starlette.responses import Response
from typing_extensions import TypedDict

from headrace.gateway.observer import Observation, Observer
from headrace.gateway_status import ProblemDocument, StatusDocument, problem_documents, status_document

_T = TypeVar("_T")


class HealthDocument(TypedDict):
    """Whether all is well. Only callers that may read the status learn what is not."""

    status: Literal["ready", "degraded"]
    problems: NotRequired[list[ProblemDocument]]
    problems_in_all: NotRequired[int]


def is_degraded(observed: Observation) -> bool:
    """Returns whether there is a problem. Pauses are listed, but are no problem."""
    return any(problem.is_fault for problem in observed.problems)


def health_document(observed: Observation, *, with_problems: bool) -> HealthDocument:
    """Returns what `/readyz` answers."""
    document: HealthDocument = {"status": "degraded" if is_degraded(observed) else "ready"}
    if with_problems:
        document["problems"] = problem_documents(observed.status, observed.taken_at)
        document["problems_in_all"] = len(observed.problems)
    return document


class Documents:
    """The status as documents, each made once for an observation: there are many probes and pages, and much to convert."""

    def __init__(self, observer: Observer, address: str) -> None:
        """Creates them.

        Args:
            observer: Takes the snapshots.
            address: The address of the gateway itself.
        """
        self._observer = observer
        self._address = address
        self._of: Observation | None = None
        self._status: StatusDocument | None = None
        self._texts: dict[str, bytes] = {}
        self._lock = asyncio.Lock()

    async def observe(self) -> Observation:
        """Returns an observation that is at most a second old."""
        return await self._observer.observe()

    async def status(self) -> StatusDocument:
        """Returns the status; nobody may change it."""
        return await self.made(await self.observe(), lambda status: status)

    async def made(self, observed: Observation, make: Callable[[StatusDocument], _T]) -> _T:
        """Returns what is made of the status of an observation: of a large one, in the same thread that converts it."""
        async with self._lock:
            self._renew(observed)
            known = self._status

            def convert() -> tuple[StatusDocument, _T]:
                status = known or status_document(self._address, observed.status, observed.taken_at)
                return status, make(status)

            self._status, found = await in_thread_if_large(observed, convert)
            return found

    async def part(self, key: str, read: Callable[[StatusDocument], Mapping[str, Any]]) -> Response:
        """Returns a part of the status.

        Args:
            key: Names the part; its text is kept under this name.
            read: Takes the part from the status.
        """
        observed = await self.observe()
        async with self._lock:
            status = await self._status_of(observed)
            return json_response(await self._text(observed, key, lambda: read(status)))

    async def health(self, *, with_problems: bool) -> tuple[Observation, bytes]:
        """Returns an observation, and what `/readyz` answers."""
        observed = await self.observe()
        async with self._lock:
            key = "problems" if with_problems else "ready"
            return observed, await self._text(observed, key, lambda: health_document(observed, with_problems=with_problems))

    async def _status_of(self, observed: Observation) -> StatusDocument:
        self._renew(observed)
        if self._status is not None:
            return self._status
        found = await in_thread_if_large(observed, partial(status_document, self._address, observed.status, observed.taken_at))
        self._status = found
        return found

    async def _text(self, observed: Observation, key: str, read: Callable[[], Mapping[str, Any]]) -> bytes:
        self._renew(observed)
        if key not in self._texts:
            self._texts[key] = await in_thread_if_large(observed, lambda: encoded(read()))
        return self._texts[key]

    def _renew(self, observed: Observation) -> None:
        """Drops what was made of another observation."""
        if self._of is not observed:
            self._of, self._status, self._texts = observed, None, {}


async def in_thread_if_large(observed: Observation, convert: Callable[[], _T]) -> _T:
    """Converts a large observation in a thread, so that sessions do not wait."""
    return await asyncio.to_thread(convert) if observed.is_large else convert()


def encoded(document: Mapping[str, Any]) -> bytes:
    """Encodes JSON, a large document in a quarter of the time that Python's own encoder takes."""
    return to_json(document)


def json_response(text: bytes, status: int = 200) -> Response:
    """Returns a response of JSON that is already encoded."""
    return Response(text, status, media_type="application/json")
