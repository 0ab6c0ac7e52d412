"""The parts of all checks: a process under test, a server, a trace, and the checks that sources and sinks share."""
