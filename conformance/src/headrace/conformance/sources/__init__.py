"""The gateway's side of sources, and the checks that judge them."""

from headrace.conformance.sources import lasting, opening, sending
from headrace.conformance.sources.declared import checks
from headrace.conformance.sources.trial import new_source_trial

__all__ = ["SOURCE_CHECKS", "lasting", "new_source_trial", "opening", "sending"]

SOURCE_CHECKS = checks.all
"""All checks of sources, in the order in which they are listed."""
