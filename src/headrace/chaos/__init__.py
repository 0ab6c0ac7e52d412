"""The proof by killing everything: a world of processes, a validator that shares no code with them, and kills by a seed."""

from headrace.chaos._errors import ChaosError
from headrace.chaos._evidence import IDEMPOTENT, TWO_PHASE, Layout
from headrace.chaos._roles import Role
from headrace.chaos._site import Site
from headrace.chaos._validator import Finding, verdict
from headrace.chaos._world import World

__all__ = ["IDEMPOTENT", "TWO_PHASE", "ChaosError", "Finding", "Layout", "Role", "Site", "World", "verdict"]
