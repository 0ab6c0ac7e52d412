"""A deterministic simulation: the real gateway and the real SDK in one process, in virtual time, with faults by seed."""
