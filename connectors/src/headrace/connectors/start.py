"""Where a new query begins in the streams of a source that has an index by time."""

from datetime import UTC, datetime


def start_of(text: str) -> str | datetime:
    """Parses where a new query begins: `earliest`, `latest`, or a time, which is in UTC if it names no zone.

    Raises:
        ValueError: The text is none of them.
    """
    if text in ("earliest", "latest"):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"start: {text!r}: write earliest, latest, or a time such as 2026-01-31T12:00:00Z") from None
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if time.timestamp() < 0:
        raise ValueError(f"start: {text!r} is before 1970, which is older than any message")
    return time
