"""The checks of `headrace doctor`. They change nothing, and take five seconds together unless they start Spark.

To add a check, write a function from a `Site` to a `Finding`, or to several, and add a row to `CHECKS`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from headrace.doctor.brokers import broker, check_connectors, check_plugins
from headrace.doctor.certificates import check_certificates
from headrace.doctor.deployment import of_deployments, of_named_gateway
from headrace.doctor.finding import Check, Finding, Level, Site
from headrace.doctor.gateway import check_gateway, check_health, check_port
from headrace.doctor.machine import check_disk, check_java, check_memory, check_python
from headrace.doctor.names import check_names
from headrace.doctor.resources import check_descriptors, check_files, check_ports, check_proxies, check_space
from headrace.doctor.secrets import check_secrets, check_tokens
from headrace.doctor.spark import check_session, check_spark
from headrace.doctor.supervisor import check_supervisor
from headrace.doctor.versions import check_versions

__all__ = ["CHECKS", "Check", "Finding", "Level", "Site", "examine"]

CHECKS = (
    Check("python", check_python),
    Check("java", check_java),
    Check("versions", check_versions),
    Check("memory", check_memory),
    Check("disk", check_disk),
    Check("spark", check_spark),
    Check("session", check_session),
    Check("port", of_named_gateway(check_port)),
    Check("gateway", of_named_gateway(check_gateway)),
    Check("health", of_named_gateway(check_health)),
    Check("rabbitmq", broker("rabbitmq", 5672)),
    Check("nats", broker("nats", 4222)),
    Check("kafka", broker("kafka", 9092)),
    Check("postgresql", broker("postgresql", 5432)),
    Check("plugins", check_plugins),
    Check("connectors", check_connectors),
    Check("ports", of_deployments(check_ports)),
    Check("files", of_deployments(check_files)),
    Check("tokens", of_deployments(check_tokens)),
    Check("secrets", of_deployments(check_secrets)),
    Check("certificates", of_deployments(check_certificates)),
    Check("supervisor", check_supervisor),
    Check("descriptors", of_deployments(check_descriptors)),
    Check("space", of_deployments(check_space)),
    Check("proxies", of_deployments(check_proxies)),
    Check("names", of_deployments(check_names)),
)


def examine(site: Site, checks: Sequence[Check] = CHECKS) -> list[tuple[Check, Finding]]:
    """Runs all checks concurrently. Returns each check with its finding, or each of its findings, in the order of `checks`."""
    with ThreadPoolExecutor(len(checks), "doctor") as threads:
        running = [(check, threads.submit(check.run, site)) for check in checks]
        return [(check, finding) for check, run in running for finding in _all(run.result())]


def _all(findings: Finding | Sequence[Finding]) -> Sequence[Finding]:
    return [findings] if isinstance(findings, Finding) else findings
