"""The checks of sources; the other modules of the package add to them."""

from headrace.conformance.core.checks import Checks
from headrace.conformance.sources.trial import SourceTrial

checks: Checks[SourceTrial] = Checks()
