"""Benchmarks: each figure with its unit, its conditions and a baseline from the same run."""
