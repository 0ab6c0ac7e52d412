"""What streams make of the messages of a sink: asked only if JetStream does not answer for a message."""

from itertools import zip_longest

import nats.errors
from nats.js.api import StreamInfo
from nats.js.errors import NotFoundError

from headrace.connectors.nats._errors import NatsAway, NatsError, NatsRefused
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.connection import jetstream
from headrace.sdk import Refused


class NoAcknowledgements(NatsRefused):
    """A stream acknowledges nothing, so nobody knows what it has stored.

    Attributes:
        stream: Its name.
        subjects: The subjects that it stores.
    """

    def __init__(self, info: StreamInfo) -> None:
        """Takes the information about the stream."""
        self.stream = info.config.name or ""
        self.subjects = tuple(info.config.subjects or ())
        super().__init__(
            f"stream {self.stream} has no_ack: it acknowledges nothing, so the sink does not know what it has stored; "
            f"set no_ack to false (nats stream edit {self.stream} --ack)"
        )

    def concerns(self, subject: str) -> bool:
        """Returns whether the stream stores a subject."""
        return any(_matches(pattern, subject) for pattern in self.subjects)


class Streams:
    """Finds and remembers which stream stores a subject, and whether it acknowledges; each is requested once."""

    def __init__(self, client: Client, domain: str | None) -> None:
        """Creates an empty cache."""
        self._jetstream = jetstream(client, domain)
        self._names: dict[str, str | None] = {}
        self._infos: dict[str, StreamInfo | None] = {}
        self._silent = False

    async def of_silence(self, subject: str, *, unrouted: bool) -> Refused | NatsError:
        """Returns why there is no acknowledgement for a message of a subject.

        Args:
            subject: The subject.
            unrouted: Whether the server has answered that nobody listens to the subject, as it also does while it starts.
        """
        if subject not in self._names:
            self._names[subject] = await self._find(subject)
        name = self._names[subject]
        if name is None:
            return Refused(f"no stream stores the subject {subject}")
        if name and not unrouted and (info := await self.info(name)) is not None and info.config.no_ack:
            return NoAcknowledgements(info)
        return NatsAway(f"subject {subject}: JetStream does not answer")

    async def info(self, name: str) -> StreamInfo | None:
        """Returns the information about a stream; None if that cannot be found out."""
        if name not in self._infos:
            self._infos[name] = None
            if not self._silent:
                try:
                    self._infos[name] = await self._jetstream.stream_info(name)
                except (nats.errors.Error, OSError, TimeoutError):
                    self._silent = True
        return self._infos[name]

    async def _find(self, subject: str) -> str | None:
        """Returns the stream of a subject; None if there is none, an empty text if that cannot be found out."""
        if self._silent:
            return ""
        try:
            return str(await self._jetstream.find_stream_name_by_subject(subject))
        except NotFoundError:
            return None
        except (nats.errors.Error, OSError, TimeoutError):
            self._silent = True
            return ""


def _matches(pattern: str, subject: str) -> bool:
    """Returns whether a subject is one of a pattern of subjects."""
    for wanted, token in zip_longest(pattern.split("."), subject.split(".")):
        if wanted == ">":
            return token is not None
        if wanted is None or token is None or wanted not in ("*", token):
            return False
    return True
