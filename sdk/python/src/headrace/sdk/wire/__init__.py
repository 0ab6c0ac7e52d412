"""The call to a gateway: its channel and messages, and the columnar encoding of frames."""
