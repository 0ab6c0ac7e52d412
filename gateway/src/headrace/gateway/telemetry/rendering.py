"""Renders what instruments read as text: lines straight from an observation, since a gateway of 1,000 streams has 5,000 of them.

The text is the same as that `prometheus_client` makes of what OpenTelemetry's reader gives it. These two make several objects for
each line, and take ten times as long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from prometheus_client.openmetrics.exposition import UNDERSCORES, escape_label_name, escape_metric_name
from prometheus_client.utils import floatToGoString

from headrace.gateway.observer import Observation
from headrace.gateway.telemetry.instruments import Instrument, Type

MAX_SERIES = 4_000
"""How many series an instrument may have: for each of 1,000 sinks, there is one for each outcome of its transactions."""
_UNITS = {"s": "seconds", "By": "bytes"}
_number: Callable[[float], str] = floatToGoString
_SHORT = 1_000_000
"""Whole numbers from here on have an exponent."""
_OPEN_METRICS = "application/openmetrics-text"
_ESCAPING = "escaping="


@dataclass(frozen=True, slots=True)
class Format:
    """A format of Prometheus.

    Attributes:
        open_metrics: Whether it is OpenMetrics.
        escaping: How names are escaped, as `prometheus_client` calls it.
    """

    open_metrics: bool = False
    escaping: str = UNDERSCORES

    @classmethod
    def of(cls, content_type: str) -> "Format":
        """Returns the format of a content type."""
        kind, *parameters = (part.strip() for part in content_type.split(";"))
        escaping = next((part.removeprefix(_ESCAPING) for part in parameters if part.startswith(_ESCAPING)), UNDERSCORES)
        return cls(kind == _OPEN_METRICS, escaping)


LabelTexts = dict[tuple[tuple[str, str], ...], str]
"""The text of labels in a format, by their names and values."""


def rendered(instruments: Sequence[Instrument], observed: Observation, form: Format, label_texts: LabelTexts) -> str:
    """Returns the lines of all instruments that are read and have a value in an observation.

    Args:
        instruments: The instruments.
        observed: The observation.
        form: The format.
        label_texts: The texts of labels in the text before, most of which are needed again; they are replaced.
    """
    lines, before = list[str](), label_texts.copy()
    label_texts.clear()
    for instrument in instruments:
        if instrument.read is not None and (series := _series(instrument, observed, form, label_texts, before)):
            lines += _heading(instrument, form)
            name = escape_metric_name(instrument.exported_name, form.escaping)
            # Most numbers are short and whole, and need no rule of Go.
            lines += [
                f"{name}{labels} {value}.0\n"
                if type(value) is int and -_SHORT < value < _SHORT
                else f"{name}{labels} {_number(value)}\n"
                for labels, value in series.items()
            ]
    return "".join(lines)


def _series(
    instrument: Instrument, observed: Observation, form: Format, label_texts: LabelTexts, before: LabelTexts
) -> dict[str, float]:
    """Returns the values of an instrument by the text of their labels, which `label_texts` gets; `before` has earlier ones.

    Prometheus refuses a text in which a line comes twice. A counter's values with the same labels are added, and of a gauge, the
    last one counts.
    """
    assert instrument.read is not None
    found = dict[str, float]()
    for value, labels in islice(instrument.read(observed), MAX_SERIES):
        key = tuple(labels.items())
        if (text := label_texts.get(key)) is None:
            text = label_texts[key] = before.get(key) or _labels(labels, form)
        found[text] = found[text] + value if instrument.type is Type.COUNTER and text in found else value
    return found


def _labels(labels: dict[str, str], form: Format) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{escape_label_name(k, form.escaping)}="{_escaped(v)}"' for k, v in sorted(labels.items())]) + "}"


def _heading(instrument: Instrument, form: Format) -> list[str]:
    """Returns the lines that describe an instrument. Only OpenMetrics names units, and quotes in descriptions are escaped."""
    full = instrument.exported_name
    name = escape_metric_name(full.removesuffix("_total") if form.open_metrics else full, form.escaping)
    text = _escaped(instrument.description) if form.open_metrics else _without_breaks(instrument.description)
    lines = [f"# HELP {name} {text}\n", f"# TYPE {name} {instrument.type}\n"]
    if form.open_metrics and (unit := _UNITS.get(instrument.unit)):
        lines.append(f"# UNIT {name} {unit}\n")
    return lines


def _escaped(text: str) -> str:
    return _without_breaks(text).replace('"', r"\"")


def _without_breaks(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
