"""Sources: the classes that authors subclass, and the session that serves them."""
