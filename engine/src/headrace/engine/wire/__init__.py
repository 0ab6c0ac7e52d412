"""Calls to the gateway: the connection, its options, retries, and the lease of a run."""
