"""Makes the text of /metrics, in a thread: a text of many streams takes long, and the event loop has other things to do."""

import asyncio

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headrace.gateway.core import Gateway
from headrace.gateway.observer import Observation, Observer
from headrace.gateway.telemetry.instruments import read_instruments
from headrace.gateway.telemetry.measuring import recording
from headrace.gateway.telemetry.rendering import Format, LabelTexts, rendered

_PREFIX = "headrace"
_END = b"# EOF\n"


class Prometheus:
    """The metrics of one gateway in the formats of Prometheus.

    Args:
        gateway: The gateway.
        observer: Takes the snapshots.
        of_streams: Whether there are series for each stream.
    """

    def __init__(self, gateway: Gateway, observer: Observer, *, of_streams: bool) -> None:
        self._observer = observer
        self._instruments = read_instruments(of_streams=of_streams)
        self._recorded = CollectorRegistry(auto_describe=False)
        reader = PrometheusMetricReader(
            disable_target_info=True, prefix=_PREFIX, scope_info_enabled=False, registry=self._recorded
        )
        self._recorded_by = recording(gateway, reader)
        self._of: Observation | None = None
        self._texts: dict[str, bytes] = {}
        self._labels_of, self._labels = Format(), LabelTexts()
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
                self._texts[content_type] = await asyncio.to_thread(self.encoded, observed, accept)
            return self._texts[content_type], content_type

    def encoded(self, observed: Observation, accept: str) -> bytes:
        """Returns the text of an observation. It may take long: do not call it in the event loop."""
        encode, content_type = choose_encoder(accept)
        form, recorded = Format.of(content_type), encode(self._recorded)
        if form != self._labels_of:
            self._labels_of, self._labels = form, LabelTexts()
        read = rendered(self._instruments, observed, form, self._labels).encode()
        return recorded.removesuffix(_END) + read + _END if form.open_metrics else recorded + read
