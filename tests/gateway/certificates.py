"""Certificates that tests make for themselves, by the authority of the conformance kit."""

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

from headrace.conformance.core.certificates import Authority, Pair

__all__ = ["Authority", "Pair", "locked"]


def locked(pair: Pair, passphrase: bytes) -> Pair:
    """Encrypts the file of a key with a passphrase."""
    key = load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase)))
    return pair
