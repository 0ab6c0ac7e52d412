"""Faults of running sites, and how soon `/readyz` names the first cause of each."""

from headrace.laboratory.bench.faults.measure import readyz_names_cause

__all__ = ["readyz_names_cause"]
