"""A certificate that signs itself, for a gateway on this machine."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Certificate:
    """A key, and certificates of it, in two PEM files."""

    def __init__(self, folder: Path, days: int) -> None:
        """Makes the key, and a certificate that is valid for so many days."""
        self.cert, self.key = folder / "gateway.pem", folder / "gateway.key"
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.write_key()
        self.write_cert(days)

    def write_key(self) -> None:
        """Writes the key."""
        text = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _replace(self.key, text)

    def write_cert(self, days: int) -> None:
        """Writes a certificate of the key that is valid for so many days."""
        now, name = datetime.datetime.now(datetime.UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self._private.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days)).add_extension(names, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        _replace(self.cert, builder.sign(self._private, hashes.SHA256()).public_bytes(Encoding.PEM))


def _replace(file: Path, text: bytes) -> None:
    """Replaces a file at once, since the gateway reads it at any time."""
    new = file.with_suffix(".new")
    new.write_bytes(text)
    new.replace(file)
