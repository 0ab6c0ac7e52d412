"""Chaos runs: a world of processes, kills that a seed determines, and a validator that shares no code with the processes."""

from headrace.laboratory.chaos.evidence import IDEMPOTENT, TWO_PHASE, Layout
from headrace.laboratory.chaos.schedule import Role
from headrace.laboratory.chaos.validator import Finding, verdict
from headrace.laboratory.chaos.world import Site, World
from headrace.laboratory.errors import ChaosError

__all__ = ["IDEMPOTENT", "TWO_PHASE", "ChaosError", "Finding", "Layout", "Role", "Site", "World", "verdict"]
