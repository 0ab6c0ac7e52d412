"""Sinks: the base classes, and the session that serves them in each of the three modes."""
