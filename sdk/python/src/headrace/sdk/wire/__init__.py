"""The call to a gateway: its channel, its messages, and frames in columns."""
