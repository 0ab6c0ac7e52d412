"""What the checks of sources and of sinks are made of: a process under test, a server, a trace, and what both do alike."""
