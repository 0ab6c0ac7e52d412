"""The gateway's side of sinks, and the checks that judge them."""

from headrace.conformance.sinks import parts, recovery, transactions
from headrace.conformance.sinks.declared import checks
from headrace.conformance.sinks.trial import new_sink_trial

__all__ = ["SINK_CHECKS", "new_sink_trial", "parts", "recovery", "transactions"]

SINK_CHECKS = checks.all
"""All checks of sinks, in the order in which they are listed."""
