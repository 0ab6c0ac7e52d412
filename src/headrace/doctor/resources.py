"""Checks whether this machine has what a deployment needs: ports, files, descriptors, room on disks, no proxy in the way."""

import os
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from headrace.contract.proxies import grpc_proxy
from headrace.doctor.deployment import DeploymentSite
from headrace.doctor.finding import Finding, failed, ok, warning
from headrace.terminal import bytes_text, counted

if TYPE_CHECKING:
    from headrace.gateway import Config

ENOUGH_DESCRIPTORS = 4096
ENOUGH_BYTES = 2 << 30
ENOUGH_INODES = 10_000
_ASK_S = 2.0


def check_ports(site: DeploymentSite) -> Finding:
    """Checks whether the gateway can listen where it is configured to, for gRPC and for HTTP."""
    if _runs(site):
        return ok("the deployment runs, and has its ports")
    taken: list[str] = []
    free: list[str] = []
    for address in filter(None, (site.config.listen, _http(site.config))):
        reason = _cannot_listen(address)
        (free if reason is None else taken).append(address if reason is None else f"{address}: {reason}")
    if taken:
        fix = "end the program that listens there, or change listen of [gateway] (http_listen for HTTP)"
        return failed(f"the gateway cannot listen on {'; '.join(taken)}", fix)
    return ok(f"{', '.join(free)} can be listened on")


def check_files(site: DeploymentSite) -> Finding:
    """Checks whether the processes can write their logs and their checkpoints."""
    folders = _folders(site)
    wrong = [f"{folder}: {reason}" for folder in folders if (reason := _cannot_write(folder)) is not None]
    if wrong:
        return failed(f"this user cannot write to {'; '.join(wrong)}", "change the owner, or run doctor as the deployment's user")
    return ok(f"{', '.join(map(str, folders))} can be written to")


def check_descriptors(site: DeploymentSite) -> Finding:
    """Checks whether the processes may open enough files and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_DESCRIPTORS:
        return ok(f"{'any number of' if soft == resource.RLIM_INFINITY else f'{soft:,}'} descriptors for each process")
    fix = f"ulimit -n {ENOUGH_DESCRIPTORS}, or LimitNOFILE of the unit"
    if hard != resource.RLIM_INFINITY and hard < ENOUGH_DESCRIPTORS:
        fix = f"raise the hard limit, which is {hard:,}: {fix}"
    return warning(f"each process may have {counted(soft, 'descriptor')}, and a gateway should have {ENOUGH_DESCRIPTORS:,}", fix)


def check_space(site: DeploymentSite) -> Finding:
    """Checks whether the disks of logs and checkpoints have room, and inodes."""
    short = []
    for folder in _folders(site):
        there = _nearest(folder)
        try:
            free, found = psutil.disk_usage(str(there)).free, os.statvfs(there)
        except OSError as error:
            short.append(f"{folder}: {error.strerror}")
            continue
        if free < ENOUGH_BYTES:
            short.append(f"{folder}: {bytes_text(free)} free")
        if found.f_files and found.f_favail < ENOUGH_INODES:
            short.append(f"{folder}: {counted(found.f_favail, 'inode')} free")
    if short:
        return warning("; ".join(short), "free some space, or name folders on a larger disk (folder, checkpoint)")
    return ok("logs and checkpoints have room")


def check_proxies(site: DeploymentSite) -> Finding:
    """Checks whether a proxy of the environment stands between the processes and their gateways."""
    addresses = {process.address or site.config.listen: process.name for process in site.processes}
    through = [(address, proxy) for address in sorted(addresses) if (proxy := grpc_proxy(address)) is not None]
    if through:
        found = "; ".join(f"{addresses[address]} reaches {address} by {proxy}" for address, proxy in through)
        return warning(found, "unless the proxy passes gRPC on, except the gateway with no_proxy")
    return ok("no proxy is used")


def _folders(site: DeploymentSite) -> list[Path]:
    places = [process.checkpoint for process in site.processes if process.checkpoint is not None]
    return list(dict.fromkeys([site.deployment.folder, *places]))


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    absolute = folder.absolute()
    return next(each for each in (absolute, *absolute.parents) if each.exists())


def _cannot_write(folder: Path) -> str | None:
    there = _nearest(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    return None if os.access(there, os.W_OK | os.X_OK) else "permission denied"


def _http(config: "Config") -> str | None:
    listen = config.http.listen
    return listen if listen not in ("auto", "off") else None


def _cannot_listen(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, place in found:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(place)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def _runs(site: DeploymentSite) -> bool:
    """Whether a supervisor runs the deployment, which then has its ports."""
    from headrace.deploy import DeploymentError, ask_processes

    try:
        ask_processes(site.deployment.folder, _ASK_S)
    except (DeploymentError, OSError):
        return False
    return True
