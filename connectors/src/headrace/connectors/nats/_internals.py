"""What of nats-py is used or replaced that it does not offer to others: all of it, and nothing of it anywhere else.

`tests/connectors/nats/test_internals.py` names each, and fails where a release no longer has it as it is expected here.
"""

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

Pairs = tuple[tuple[str, bytes], ...]


class Headers(dict[str, str]):
    """The headers of a message as nats-py has them, and as they came: names repeat, values may be any bytes."""

    pairs: Pairs = ()


class MendedClient(nats.aio.client.Client):
    """The client of nats-py, with four methods that mend what is amiss in 2.16."""

    def __init__(self, *, encrypted: bool) -> None:
        """Connects to nothing yet; sends nothing without TLS where it is to be `encrypted`."""
        super().__init__()
        self._encrypted = encrypted

    def closed(self) -> None:
        """The connection is no more, however it ended."""

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """Sees that a loss is told: nats-py first sends what is left, and where that fails it tells nothing and leaves tasks."""
        self._pending.clear()
        self._pending_data_size = 0
        try:
            await super()._close(status, do_cbs)
        finally:
            self.closed()

    def _connect_command(self) -> bytes:
        """Sees that a login is not sent for everybody to read: nats-py leaves to the server whether there is TLS."""
        if self._encrypted and not (self._server_info.get("tls_required") or self.options["tls_handshake_first"]):
            raise nats.errors.SecureConnRequiredError
        return super()._connect_command()

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None) -> Msg:
        """Takes a subject that is not UTF-8, too: it would end nats-py's reading, silently."""
        try:
            message: Msg = super()._build_message(sid, subject, reply, data, headers)
        except UnicodeDecodeError:
            message = super()._build_message(sid, b"", reply, data, headers)
            message.subject = subject.decode(errors="surrogateescape")
        return message

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Keeps headers as they came, beside the dict that nats-py makes of them: it drops repeats and what is not UTF-8."""
        pairs = []
        for line in raw.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and name.strip():
                pairs.append((name.strip().decode(errors="replace"), value.strip()))
        headers = Headers((name, value.decode(errors="replace")) for name, value in pairs)
        headers.pairs = tuple(pairs)
        return headers
