"""Watches what the gateway itself needs: its TLS files, and descriptors: each connection and each file takes one."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from headrace.contract import clock
from headrace.contract.certificates import ServerFiles, Stamp
from headrace.gateway.config import Tls
from headrace.gateway.core import Gateway
from headrace.gateway.own_faults import OwnFaultKind, OwnFaults
from headrace.machine.resources import REMEDY, in_use, limit

INTERVAL_S = 1.0
SOON_S = 14 * 86_400
"""How long before its end a certificate is a problem, in seconds."""
_REMEDY = "replace it: new connections use the new files at once, and nothing has to be restarted"
_INVALID = "correct the files; until then, connections use what was valid before, and a restart of the gateway would fail"


class CertificateWatch:
    """The TLS files of one gateway."""

    def __init__(self, tls: Tls, gateway: Gateway) -> None:
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
        for file, expires_at_s in self._gateway.certificates.items():
            self._judge(file, expires_at_s)

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

    def _judge(self, file: str, expires_at_s: int) -> None:
        left_s = expires_at_s - clock.now()
        if left_s >= SOON_S:
            self._gateway.own_faults.end(f"file {file}", OwnFaultKind.CERTIFICATE_EXPIRES)
            return
        day = f"{datetime.fromtimestamp(expires_at_s, UTC):%Y-%m-%d %H:%M} UTC"
        when = f"expires on {day}, in {int(left_s // 86_400)} days" if left_s > 0 else f"has expired on {day}"
        self._gateway.own_faults.note(f"file {file}", OwnFaultKind.CERTIFICATE_EXPIRES, f"the certificate {when}", _REMEDY)

    def _paths(self) -> list[Path]:
        return [path for path in (self._tls.cert, self._tls.key, self._tls.client_ca) if path is not None]


MAX_FEW = 128
"""As many are enough for the moment, whatever the limit is."""
_PART = "descriptors"
_OF_DESCRIPTORS = f"{REMEDY} and restart the gateway, or end what connects again and again; what is connected continues"


class DescriptorWatch:
    """The descriptors of this process."""

    def __init__(self, faults: OwnFaults, in_use: Callable[[], int] = in_use, limit: Callable[[], int | None] = limit) -> None:
        self._faults = faults
        self._in_use = in_use
        self._limit = limit

    async def watch(self) -> None:
        """Looks once a second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL_S)

    def look(self) -> None:
        """Notes that less than a tenth of the descriptors is left, until that is twice as much."""
        most = self._limit()
        if most is None:
            self._faults.end(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED)
            return
        used, few = self._in_use(), min(max(1, most // 10), MAX_FEW)
        if most - used < few:
            cause = f"{used} of {most} descriptors of the gateway are in use: it cannot take further connections or open files"
            self._faults.note(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED, cause, _OF_DESCRIPTORS)
        elif most - used >= 2 * few:
            self._faults.end(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED)
