"""Watches certificates: in the files of the gateway, and the ones that its clients present."""

import asyncio
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from headrace.contract import clock
from headrace.contract.certificates import ServerFiles, Stamp
from headrace.contract.counts import counted
from headrace.gateway.config import Tls
from headrace.gateway.core import Gateway
from headrace.gateway.core.connections import ClientCertificates
from headrace.gateway.own_faults import OwnFaultKind

INTERVAL_S = 1.0
SOON_S = 14 * 86_400
"""How long before its end a certificate is a problem, in seconds."""
_REMEDY = "replace it: new connections use the new files at once, and nothing has to be restarted"
_OF_CLIENT = "issue the client a new one, and restart it: headrace restart, if a deployment runs it"
_INVALID = "correct the files; until then, connections use what was valid before, and a restart of the gateway would fail"


class CertificateWatch:
    """The TLS files of one gateway, and what its clients present."""

    def __init__(self, tls: Tls, gateway: Gateway, clients: ClientCertificates | None = None) -> None:
        self._clients = ClientCertificates() if clients is None else clients
        self._presented: Collection[str] = ()
        """The parts of clients."""
        self._files = ServerFiles(tls.cert, tls.key, tls.client_ca)
        self._tls = tls
        self._gateway = gateway
        self._stamps: list[Stamp] | None = None
        self._is_invalid = False

    async def watch(self) -> None:
        """Looks once a second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL_S)

    def look(self) -> None:
        """Reads the files if they have changed or could not be used, and notes what is wrong with them now."""
        stamps = self._files.stamps()
        if stamps != self._stamps or self._is_invalid:
            self._read()
            self._stamps = stamps
        for path in self._paths():
            if (expires_at_s := self._gateway.certificates.get(str(path))) is not None:
                self._judge(f"file {path}", expires_at_s, _REMEDY)
        self._look_at_clients()

    def _look_at_clients(self) -> None:
        in_use = self._clients.in_use(call.peer for call in self._gateway.open_calls)
        now = {f"client {name}": expires_at_s for name, expires_at_s in in_use.items()}
        for part in self._presented:
            if part not in now:
                del self._gateway.certificates[part]
                self._gateway.own_faults.end(part, OwnFaultKind.CERTIFICATE_EXPIRES)
        self._gateway.certificates |= now
        for part, expires_at_s in now.items():
            self._judge(part, expires_at_s, _OF_CLIENT)
        self._presented = now.keys()

    def _read(self) -> None:
        faults = self._gateway.own_faults
        wrong = {str(getattr(self._tls, key)): text for key, text in self._files.problems()}
        self._is_invalid = bool(wrong)
        for path in self._paths():
            part = f"file {path}"
            if (text := wrong.get(str(path))) is not None:
                faults.note(part, OwnFaultKind.CERTIFICATE_INVALID, text, _INVALID)
            else:
                faults.end(part, OwnFaultKind.CERTIFICATE_INVALID)
        # One that cannot be read keeps the time of the one that is in use.
        self._gateway.certificates |= dict(self._expiries())

    def _expiries(self) -> Iterator[tuple[str, int]]:
        """Yields when each file's certificates expire, in seconds since 1970.

        Of a chain, the first counts that expires. Of authorities, the last: an old one stays in the file while it is replaced.
        """
        for path in self._paths():
            if path == self._tls.key:
                continue
            try:
                times = [found.not_valid_after_utc.timestamp() for found in x509.load_pem_x509_certificates(path.read_bytes())]
            except (OSError, ValueError):
                continue
            yield str(path), int(max(times) if path == self._tls.client_ca else min(times))

    def _judge(self, part: str, expires_at_s: int, remedy: str) -> None:
        left_s = expires_at_s - clock.now()
        if left_s >= SOON_S:
            self._gateway.own_faults.end(part, OwnFaultKind.CERTIFICATE_EXPIRES)
            return
        day = f"{datetime.fromtimestamp(expires_at_s, UTC):%Y-%m-%d %H:%M} UTC"
        when = f"expires on {day}, in {counted(int(left_s // 86_400), 'day')}" if left_s > 0 else f"has expired on {day}"
        self._gateway.own_faults.note(part, OwnFaultKind.CERTIFICATE_EXPIRES, f"the certificate {when}", remedy)

    def _paths(self) -> list[Path]:
        return [path for path in (self._tls.cert, self._tls.key, self._tls.client_ca) if path is not None]
