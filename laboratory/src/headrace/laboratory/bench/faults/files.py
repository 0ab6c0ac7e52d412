"""A gateway with TLS and a connector, without Spark: faults of the gateway's files, and of what is not connected."""

import datetime
import ipaddress
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import running
from headrace.laboratory.bench.rig import START_S, Restartable, sink_command, status, wait_for
from headrace.machine.ports import free_address
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceStub

_VALID_DAYS = 365
_EXPIRES_IN_DAYS = 10


class Certificate:
    """A key, and certificates of it, in two PEM files."""

    def __init__(self, folder: Path, days: int) -> None:
        """Makes the key, and a certificate that is valid for this many days."""
        self.cert, self.key = folder / "gateway.pem", folder / "gateway.key"
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.write_key()
        self.write_cert(days)

    def write_key(self) -> None:
        """Writes the key."""
        text = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _replace(self.key, text)

    def write_cert(self, days: int) -> None:
        """Writes a certificate of the key that is valid for this many days."""
        now, name = datetime.datetime.now(datetime.UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self._private.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days)).add_extension(names, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        _replace(self.cert, builder.sign(self._private, hashes.SHA256()).public_bytes(Encoding.PEM))


class Query:
    """A query that reads a source which nobody has started."""

    def __init__(self, stub: EngineServiceStub) -> None:
        """Attaches nothing yet."""
        self._stub, self._who = stub, pb.Pipeline(name="alone", streams=["nowhere/*"])

    @classmethod
    @contextmanager
    def at(cls, address: str, ca: Path) -> Iterator["Query"]:
        """Connects to a gateway that serves TLS until the block ends, given the authority to trust."""
        with grpc.secure_channel(address, grpc.ssl_channel_credentials(ca.read_bytes())) as channel:
            yield cls(EngineServiceStub(channel))

    def attach(self) -> None:
        """Attaches the query, as a new run."""
        self._who.run += 1
        self._stub.Attach(pb.AttachRequest(pipeline=self._who), timeout=START_S)

    def detach(self) -> None:
        """Detaches the query."""
        self._stub.Detach(pb.DetachRequest(pipeline=self._who), timeout=START_S)


def _replace(file: Path, text: bytes) -> None:
    """Replaces a file at once, since the gateway reads it at any time."""
    new = file.with_suffix(".new")
    new.write_bytes(text)
    new.replace(file)


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
        query = stack.enter_context(Query.at(gateway.address, certificate.cert))
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
            Fault(
                "no_source", frozenset({"connector-away"}), "pipeline alone", query.attach, query.detach, root="source nowhere"
            ),
        ]
        yield gateway.url, [fault for fault in faults if fault.name in names]


FILES = Site(("configuration_invalid", "key_invalid", "certificate_expires", "nothing_connected", "no_source"), _run)
