"""Processor time by part of the way of a message: `headrace bench profile`."""
