"""The checks of sinks; the other modules of the package add to them."""

from headrace.conformance.core.checks import Checks
from headrace.conformance.sinks.trial import SinkTrial

checks: Checks[SinkTrial] = Checks()
