"""Sources: the base classes, and the session that serves them."""
