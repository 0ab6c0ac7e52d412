"""Measures a gateway with OpenTelemetry's API and SDK."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource

from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.observer import Observation
from headrace.gateway.telemetry.instruments import COMMIT_TO_ACK, COMMIT_TO_ACK_BUCKETS, Instrument, Type, read_instruments
from headrace.gateway.telemetry.readings import Read, labelled_names
from headrace.gateway.telemetry.rendering import MAX_SERIES

CARDINALITY_LIMITS: dict[type, int] = {ObservableCounter: MAX_SERIES, ObservableGauge: MAX_SERIES}
SCOPE = "headrace.gateway"

_Reader = TypeVar("_Reader", bound=MetricReader)


class Measuring(Generic[_Reader]):
    """The metrics of one gateway for one kind of reader. All values but the histogram are read from an observation.

    Args:
        gateway: The gateway.
        new_reader: Creates a reader.
        prefix: The beginning of the instruments' names, if the reader does not add it.
        of_streams: Whether there are series for each stream.
    """

    def __init__(self, gateway: Gateway, new_reader: Callable[[], _Reader], *, prefix: str = "", of_streams: bool) -> None:
        self._new_reader = new_reader
        self._prefix = prefix
        self._read = read_instruments(of_streams=of_streams)
        self._names: set[str] = set()
        self._observed: Observation | None = None
        self._one_at_a_time = Lock()
        self._recorded = new_reader()
        self._recorded_by = recording(gateway, self._recorded, prefix)
        self._read_by, self._reader = self._observing()

    @contextmanager
    def reading(self, observed: Observation) -> Iterator[Sequence[_Reader]]:
        """Provides the readers of all metrics, which read this observation. Call it in any thread, as it may take long."""
        with self._one_at_a_time:
            names = labelled_names(observed)
            if not names >= self._names:
                # A provider remembers all labels that it has ever seen; names that come and go would fill it.
                self._read_by.shutdown()
                self._read_by, self._reader = self._observing()
            self._names = names
            self._observed = observed
            try:
                yield self._recorded, self._reader
            finally:
                self._observed = None

    def _observing(self) -> tuple[MeterProvider, _Reader]:
        """Returns a provider of all instruments that are read, and its reader."""
        reader = self._new_reader()
        provider = _provider(reader)
        meter = provider.get_meter(SCOPE, VERSION)
        for instrument in self._read:
            if instrument.read is not None:
                self._create(meter, instrument, instrument.read)
        return provider, reader

    def _create(self, meter: metrics.Meter, instrument: Instrument, read: Read) -> None:
        callbacks = [self._callback(read)]
        create = meter.create_observable_counter if instrument.type is Type.COUNTER else meter.create_observable_gauge
        create(self._prefix + instrument.name, callbacks, instrument.unit, instrument.description)

    def _callback(self, read: Read) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
        def observe(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            assert self._observed is not None, "a reader reads within `reading` alone"
            return [metrics.Observation(value, labels) for value, labels in read(self._observed)]

        return observe


def recording(gateway: Gateway, reader: MetricReader, prefix: str = "") -> MeterProvider:
    """Records what is not read from observations: the time from a commit to its acknowledgements.

    Args:
        gateway: The gateway.
        reader: Reads what is recorded.
        prefix: The beginning of the instrument's name, if the reader does not add it.

    Returns:
        The owner of the instrument.
    """
    provider = _provider(reader)
    histogram = provider.get_meter(SCOPE, VERSION).create_histogram(
        prefix + COMMIT_TO_ACK.name,
        COMMIT_TO_ACK.unit,
        COMMIT_TO_ACK.description,
        explicit_bucket_boundaries_advisory=COMMIT_TO_ACK_BUCKETS,
    )
    gateway.acknowledgement_observers.append(histogram.record)
    return provider


def _provider(reader: MetricReader) -> MeterProvider:
    resource = Resource.create({"service.name": "headrace-gateway", "service.version": VERSION})
    return MeterProvider([reader], resource, shutdown_on_exit=False)
