"""Certificates that tests make for themselves."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority that lives in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.cert = folder / f"{name}.pem"
        certificate = self._builder(self._name, self._key.public_key(), is_authority=True).sign(self._key, hashes.SHA256())
        self.cert.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *, passphrase: bytes | None = None, address: str = "127.0.0.1") -> Pair:
        """A certificate for `localhost` and an address, this machine's own unless it is given, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
        builder = self._builder(subject, key.public_key(), is_authority=False)
        certificate = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(self._key, hashes.SHA256())
        pair.cert.write_bytes(certificate.public_bytes(Encoding.PEM))
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
