"""Calls to the gateway, and conversion between frames and Arrow record batches."""
