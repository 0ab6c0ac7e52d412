"""The lengths and numbers of protobuf's wire format."""


def varint(number: int) -> bytes:
    """Encodes a number that is not negative as a protobuf varint: seven bits per byte, lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
