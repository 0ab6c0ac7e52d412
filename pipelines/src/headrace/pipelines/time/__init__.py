"""Event time."""
