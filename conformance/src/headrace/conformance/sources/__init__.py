"""The gateway's side of sources, and the checks that judge them."""

from headrace.conformance.sources import ending, lasting, opening, sending
from headrace.conformance.sources.trial import new_source_trial

__all__ = ["SOURCE_CHECKS", "new_source_trial"]

SOURCE_CHECKS = (*opening.checks.all, *sending.checks.all, *lasting.checks.all, *ending.checks.all)
"""All checks of sources, in the order in which they are listed."""
