"""All uses and replacements of private parts of nats-py. No other module uses them.

`tests/connectors/nats/test_internals.py` names each of them, and fails if a release lacks one or changes its form.
"""

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

Pairs = tuple[tuple[str, bytes], ...]


class Headers(dict[str, str]):
    """The headers of a message, as nats-py parses them and in raw form: names may repeat, values may be any bytes."""

    pairs: Pairs = ()


class MendedClient(nats.aio.client.Client):
    """The client of nats-py, with four methods that fix bugs of version 2.16."""

    def __init__(self, *, encrypted: bool) -> None:
        """Creates the client, without connecting; if `encrypted`, it sends nothing without TLS."""
        super().__init__()
        self._encrypted = encrypted

    def closed(self) -> None:
        """Called when the connection is closed, for any reason."""

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """Ensures that a loss is reported: if nats-py fails to send pending data first, it reports nothing and leaks tasks."""
        self._pending.clear()
        self._pending_data_size = 0
        try:
            await super()._close(status, do_cbs)
        finally:
            self.closed()

    def _connect_command(self) -> bytes:
        """Ensures that credentials are not sent in plain text: nats-py lets the server decide whether to use TLS."""
        if self._encrypted and not (self._server_info.get("tls_required") or self.options["tls_handshake_first"]):
            raise nats.errors.SecureConnRequiredError
        return super()._connect_command()

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None) -> Msg:
        """Also accepts a subject that is not valid UTF-8, which would silently end nats-py's read loop."""
        try:
            message: Msg = super()._build_message(sid, subject, reply, data, headers)
        except UnicodeDecodeError:
            message = super()._build_message(sid, b"", reply, data, headers)
            message.subject = subject.decode(errors="surrogateescape")
        return message

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Keeps raw headers in addition to nats-py's dict, which lacks repeated names and values that are not valid UTF-8."""
        pairs = []
        for line in raw.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and name.strip():
                pairs.append((name.strip().decode(errors="replace"), value.strip()))
        headers = Headers((name, value.decode(errors="replace")) for name, value in pairs)
        headers.pairs = tuple(pairs)
        return headers
