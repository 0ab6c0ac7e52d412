"""Makes the text of /metrics, in a thread: a text of many streams takes long, and the event loop has other things to do."""

import asyncio

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headrace.gateway.core import Gateway
from headrace.gateway.observer import Observation, Observer
from headrace.gateway.telemetry.measuring import CARDINALITY_LIMITS, Measuring

_PREFIX = "headrace"


class Prometheus:
    """The metrics of one gateway in the formats of Prometheus.

    Args:
        gateway: The gateway.
        observer: Takes the snapshots.
        of_streams: Whether there are series for each stream.
    """

    def __init__(self, gateway: Gateway, observer: Observer, *, of_streams: bool) -> None:
        self._observer = observer
        self._registry = CollectorRegistry(auto_describe=False)
        self._measuring = Measuring(gateway, self._reader, of_streams=of_streams)
        self._of: Observation | None = None
        self._texts: dict[str, bytes] = {}
        self._one_at_a_time = asyncio.Lock()

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Returns all metrics, and their content type, in the best format that a client accepts.

        However many ask, there is one text of an observation in each format.
        """
        _, content_type = choose_encoder(accept)
        async with self._one_at_a_time:
            observed = await self._observer.observe()
            if observed is not self._of:
                self._of = observed
                self._texts.clear()
            if content_type not in self._texts:
                self._texts[content_type] = await asyncio.to_thread(self._encoded, observed, accept)
            return self._texts[content_type], content_type

    def _encoded(self, observed: Observation, accept: str) -> bytes:
        encode, _ = choose_encoder(accept)
        with self._measuring.reading(observed):
            return encode(self._registry)

    def _reader(self) -> PrometheusMetricReader:
        return PrometheusMetricReader(
            disable_target_info=True,
            prefix=_PREFIX,
            scope_info_enabled=False,
            registry=self._registry,
            cardinality_limits=CARDINALITY_LIMITS,
        )
