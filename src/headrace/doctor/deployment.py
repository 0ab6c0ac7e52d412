"""The deployments that `headrace doctor` was asked to check, and how a check is run on all of them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.contract.token_files import read_token
from headrace.doctor.finding import Finding, Level, Site, failed, skipped
from headrace.terminal import EXIT_INVALID

if TYPE_CHECKING:
    from headrace.connectors.configuration import GatewayTable
    from headrace.deploy import Deployment
    from headrace.gateway import Config

_TABLES = ("connectors", "pipeline", "application", "query")
_NONE = "no deployment was named", "to check one: headrace doctor --config deploy.toml"


@dataclass(frozen=True)
class DeploymentProcess:
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
    processes: tuple[DeploymentProcess, ...]


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
        processes.append(DeploymentProcess(name, right, target, configured.gateway, environ))
    for name, options in deployment.applications.items():
        place = deployment.path.parent / (options.checkpoint or "checkpoints") if "://" not in str(options.checkpoint) else None
        processes.append(DeploymentProcess(name, "pipelines", "", options.gateway, environ, place))
    for name, query in deployment.queries.items():
        processes.append(DeploymentProcess(name, "pipelines", "", query.gateway, environ, deployment.path.parent / "checkpoints"))
    return DeploymentSite(deployment, gateway_config(deployment.gateway, environ), tuple(processes))
