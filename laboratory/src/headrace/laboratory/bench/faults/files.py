"""A gateway with TLS and a connector, without Spark: faults of the gateway's files, and of what is not connected."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.contract.ports import free_address
from headrace.laboratory.bench.faults.certificates import Certificate
from headrace.laboratory.bench.faults.fault import Fault
from headrace.laboratory.bench.faults.gateway import running
from headrace.laboratory.bench.faults.site import Site
from headrace.laboratory.bench.rig import START_S, Restartable, sink_command, status, wait_for

_VALID_DAYS = 365
_EXPIRES_IN_DAYS = 10


@contextmanager
def _run(_: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; a sink's connector is connected."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        certificate, config = Certificate(folder, _VALID_DAYS), folder / "gateway.toml"
        config.write_text("")
        files = ["--tls-cert", str(certificate.cert), "--tls-key", str(certificate.key)]
        gateway = stack.enter_context(running(folder, "--config", str(config), *files))
        trust = ["--tls-ca", str(certificate.cert)]
        sink = stack.enter_context(Restartable([*sink_command(gateway.address, folder / "out"), *trust]))
        astray = Restartable([*sink_command(free_address(), folder / "out"), *trust])

        def lose() -> None:
            sink.kill()
            astray.start()

        def reach() -> None:
            astray.kill()
            sink.start()
            wait_for("the connector to be connected", is_connected, START_S)

        def is_connected() -> bool:
            return bool(status(gateway.address, certificate.cert).sink_sessions)

        wait_for("the connector to be connected", is_connected, START_S)
        faults = [
            Fault(
                "configuration_invalid",
                frozenset({"configuration-invalid"}),
                f"file {config}",
                partial(config.write_text, "[nonsense]\n"),
                partial(config.write_text, ""),
                "nonsense",
            ),
            Fault(
                "key_invalid",
                frozenset({"certificate-invalid"}),
                f"file {certificate.key}",
                partial(certificate.key.write_text, "no key\n"),
                certificate.write_key,
            ),
            Fault(
                "certificate_expires",
                frozenset({"certificate-expires"}),
                f"file {certificate.cert}",
                partial(certificate.write_cert, _EXPIRES_IN_DAYS),
                partial(certificate.write_cert, _VALID_DAYS),
                "expires",
            ),
            Fault("nothing_connected", frozenset({"not-connected"}), "gateway", lose, reach),
        ]
        yield gateway.url, [fault for fault in faults if fault.name in names]


FILES = Site(("configuration_invalid", "key_invalid", "certificate_expires", "nothing_connected"), _run)
