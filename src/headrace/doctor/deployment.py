"""Checks of deployments: whether what a file names can be had on this machine, before anything is started."""

import os
import resource
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from headrace.contract.names import covers
from headrace.contract.proxies import grpc_proxy
from headrace.contract.token_files import TokenFileError, descriptor_of, exposure, read_token
from headrace.doctor.finding import Finding, Level, Site, failed, ok, skipped, warning
from headrace.terminal import EXIT_INVALID, bytes_text, counted

if TYPE_CHECKING:
    from headrace.connectors.configuration import GatewayTable
    from headrace.deploy import Deployment
    from headrace.gateway import Config, Token

ENOUGH_DESCRIPTORS = 4096
ENOUGH_BYTES = 2 << 30
ENOUGH_INODES = 10_000
_ASK_S = 2.0
_TABLES = ("connectors", "pipeline", "application", "query")
_NONE = "no deployment was named", "to check one: headrace doctor --config deploy.toml"


@dataclass(frozen=True)
class _Process:
    """A process of a deployment that calls the gateway.

    Attributes:
        name: Its name.
        right: What its token must allow.
        target: What it must allow it for: a source or a sink; empty if only its program knows.
        gateway: How it reaches its gateway.
        environ: The variables that have its token if the file does not.
        checkpoint: Its checkpoint; None if it has none, or on another file system.
    """

    name: str
    right: str
    target: str
    gateway: "GatewayTable"
    environ: Mapping[str, str] = field(repr=False)
    checkpoint: Path | None = None

    @property
    def address(self) -> str | None:
        """The gateway that it names; None for the gateway of the deployment."""
        return self.gateway.address

    @property
    def token_file(self) -> Path | None:
        """The file with its token; None if that is elsewhere."""
        named = self.environ.get("HEADRACE_TOKEN_FILE") if self.gateway.token is None else None
        return self.gateway.token_file or (Path(named) if named else None)

    def secret(self) -> str | None:
        """Returns its token; None if it has none.

        Raises:
            TokenFileError: Its file contains none.
        """
        if self.token_file is not None:
            return read_token(self.token_file)
        token = self.gateway.token
        return token.get_secret_value() if token is not None else self.environ.get("HEADRACE_TOKEN")


@dataclass(frozen=True)
class DeploymentSite:
    """A deployment, the configuration of its gateway, and its processes."""

    deployment: "Deployment"
    config: "Config"
    processes: tuple[_Process, ...]


def of_deployments(check: Callable[[DeploymentSite], Finding]) -> Callable[[Site], Finding]:
    """Returns the check of all deployments that were named, whose finding is the worst of them."""

    def run(site: Site) -> Finding:
        from headrace.configuration import ConfigurationError
        from headrace.connectors import ConnectorUnavailable

        findings = []
        for path in _deployments(site):
            try:
                findings.append(check(_loaded(path)))
            except ConnectorUnavailable as error:
                findings.append(failed(f"{path}: {error}", "headrace connector list shows all connectors"))
            except ConfigurationError as error:
                findings.append(failed("; ".join(str(error).splitlines()), "correct the file", EXIT_INVALID))
        if not findings:
            return skipped(*_NONE)
        order = (Level.SKIPPED, Level.OK, Level.WARNING, Level.FAILED)
        worst = max(findings, key=lambda finding: order.index(finding.level))
        same = [finding.text for finding in findings if finding.level is worst.level]
        return Finding(worst.level, "; ".join(same), worst.fix, worst.exit_code)

    return run


def of_named_gateway(check: Callable[[Site], Finding | Sequence[Finding]]) -> Callable[[Site], Finding | Sequence[Finding]]:
    """Returns a check of the gateway that leaves out the default one if a deployment, which has its own, was named instead."""

    def run(site: Site) -> Finding | Sequence[Finding]:
        if not site.gateway_named and any(_deployments(site)):
            return skipped("no gateway was named", "to check the deployment's while it runs: --gateway HOST:PORT")
        return check(site)

    return run


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


def check_tokens(site: DeploymentSite) -> Finding:
    """Checks whether the gateway knows the token of each process, and whether it allows what the process does."""
    if not site.config.tokens:
        return ok("the gateway needs no tokens")
    wrong = [wrong for process in site.processes if (wrong := _wrong_token(process, site.config.tokens)) is not None]
    if wrong:
        return failed("; ".join(wrong), "set token in the table gateway of the process, and its rights in the gateway's tokens")
    return ok(f"the tokens allow the work of {counted(len(site.processes), 'process')}")


def check_secrets(site: DeploymentSite) -> Finding:
    """Checks whether files with tokens and variables can be read, and not by others."""
    files = [file for process in site.processes if (file := process.token_file) is not None and descriptor_of(file) is None]
    if site.deployment.env_file is not None:
        files.append(site.deployment.env_file)
    if not files:
        return ok("there are no files with secrets")
    wrong = [f"{file}: permission denied" for file in files if file.exists() and not os.access(file, os.R_OK)]
    if wrong:
        return failed("; ".join(wrong), "change the owner, or run doctor as the deployment's user")
    if exposed := [why for file in dict.fromkeys(files) if (why := exposure(file)) is not None]:
        return warning("; ".join(exposed), "allow only the deployment's user to read them")
    return ok(f"{', '.join(map(str, dict.fromkeys(files)))} can be read by their owners only")


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


def _deployments(site: Site) -> Iterator[Path]:
    from headrace.configuration import ConfigurationError, ConfigurationFile

    for given in site.connectors:
        try:
            if set(ConfigurationFile(Path(given)).names()) & set(_TABLES):
                yield Path(given)
        except ConfigurationError:
            continue  # It may be FILE:NAME; the check of connectors reports any problem.


def _loaded(path: Path) -> DeploymentSite:
    from headrace.deploy import gateway_config, load_deployment

    deployment = load_deployment(path)
    environ = {**os.environ, **deployment.variables}
    processes = []
    for name, configured in deployment.connectors.items():
        kind = configured.connector.kind
        right, target = f"{kind}s", str(getattr(configured.parameters, kind))
        processes.append(_Process(name, right, target, configured.gateway, environ))
    for name, options in deployment.applications.items():
        place = deployment.path.parent / (options.checkpoint or "checkpoints") if "://" not in str(options.checkpoint) else None
        processes.append(_Process(name, "pipelines", "", options.gateway, environ, place))
    for name, query in deployment.queries.items():
        processes.append(_Process(name, "pipelines", "", query.gateway, environ, deployment.path.parent / "checkpoints"))
    return DeploymentSite(deployment, gateway_config(deployment.gateway, environ), tuple(processes))


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


def _wrong_token(process: _Process, tokens: "tuple[Token, ...]") -> str | None:
    from headrace.gateway import token_digest

    if process.address is not None:
        return None  # Another gateway knows it.
    try:
        secret = process.secret()
    except TokenFileError as error:
        return f"{process.name}: {error}"
    if secret is None:
        return f"{process.name} has no token"
    digest = token_digest(secret)
    found = next((token for token in tokens if digest in token.sha256), None)
    if found is None:
        return f"the gateway does not know the token of {process.name}"
    allowed: tuple[str, ...] = getattr(found, process.right)
    # The names of a source's streams are known to its system only; a pattern that its name can begin with may allow them.
    targets = {"sources": process.target, "sinks": process.target}.get(process.right, "")
    if not allowed or (targets and not any(covers(pattern.partition("/")[0], targets) for pattern in allowed)):
        return f"token {found.name} of {process.name} lacks {process.right}{f' for {targets}' if targets else ''}"
    return None
