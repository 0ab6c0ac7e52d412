"""Execution of a graph: passes, order, watermarks."""
