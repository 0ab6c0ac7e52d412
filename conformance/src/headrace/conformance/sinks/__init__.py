"""The gateway's side of sinks, and the checks that judge them."""

from headrace.conformance.sinks import parts, recovery, transactions
from headrace.conformance.sinks.trial import new_sink_trial

__all__ = ["SINK_CHECKS", "new_sink_trial"]

SINK_CHECKS = (*parts.checks.all, *transactions.checks.all, *recovery.checks.all)
"""All checks of sinks, in the order in which they are listed."""
