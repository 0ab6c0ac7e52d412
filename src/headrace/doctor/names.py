"""Checks whether servers of names know the hosts of the gateways that a deployment calls, and answer soon."""

import ipaddress
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from headrace.contract.addresses import host_of
from headrace.doctor.deployment import DeploymentSite
from headrace.doctor.finding import Finding, failed, ok, warning

WITHIN_S = 4.0
"""How long an answer may take: gRPC does not wait much longer."""
SOON_S = 1.0


@dataclass
class _Lookup:
    took_s: float | None = None
    error: str | None = None


def check_names(site: DeploymentSite) -> Finding:
    """Checks whether the name of each gateway that a process calls is resolved."""
    from headrace.deploy.commands import reachable

    callers: dict[str, list[str]] = {}
    for process in site.processes:
        host = host_of(process.address or reachable(site.config.listen))
        if host and not _is_ip(host):
            callers.setdefault(host, []).append(process.name)
    lookups = _looked_up(list(callers))
    unknown = [f"{host}, which {', '.join(callers[host])} calls: {one.error}" for host, one in lookups.items() if one.error]
    if unknown:
        return failed("; ".join(unknown), "correct the address of the gateway, or the servers of names of this machine")
    late = [f"{host} after {one.took_s:.1f} s" for host, one in lookups.items() if one.took_s is not None and one.took_s > SOON_S]
    if late:
        return warning(f"resolved late: {', '.join(late)}", "ask who runs the servers of names; each connection waits for them")
    return ok(f"resolved: {', '.join(lookups)}" if lookups else "no gateway is called by a name")


def _looked_up(hosts: list[str]) -> dict[str, _Lookup]:
    """Looks all up at once. A lookup that hangs is left behind."""
    lookups = {host: _Lookup() for host in hosts}
    threads = [threading.Thread(target=_look_up, args=(host, one), daemon=True) for host, one in lookups.items()]
    until = time.monotonic() + WITHIN_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    silent = _Lookup(error=f"no server of names has answered within {WITHIN_S:.0f} s")
    return {host: silent if one.took_s is None and one.error is None else one for host, one in lookups.items()}


def _look_up(host: str, lookup: _Lookup) -> None:
    began = time.monotonic()
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        lookup.error = (error.strerror if isinstance(error, OSError) else None) or str(error)
    else:
        lookup.took_s = time.monotonic() - began


def _is_ip(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False
