"""The generated stubs of protocol version 1."""
