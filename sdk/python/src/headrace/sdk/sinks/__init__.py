"""Sinks: the classes that authors subclass, and the session that serves them in each of the three modes."""
