"""The figures of a run: of all of it, and of its two halves."""

from headrace.laboratory.demo.meter import Meter


def test_the_halves_of_a_stream_are_told_apart_at_the_commit_that_passes_half_of_it() -> None:
    meter = Meter()
    meter.note(400, 0, 1.0)
    meter.note(1000, 300, 5.0)
    meter.note(1000, 600, 7.0)
    meter.note(1000, 1000, 8.0)
    halves = meter.halves()
    assert halves is not None
    cold, warm = halves
    assert (cold.messages, cold.took_s, cold.rate) == (600, 6.0, 100.0)
    # The first 400 messages, of 1.0 s, were committed at 7.0 s; all others came at 5.0 s.
    assert (cold.ack_latency_p50_s, cold.ack_latency_p99_s) == (6.0, 6.0)
    assert (warm.messages, warm.took_s, warm.rate) == (400, 1.0, 400.0)
    assert (warm.ack_latency_p50_s, warm.ack_latency_p99_s) == (3.0, 3.0)


def test_a_stream_of_a_single_commit_has_no_halves() -> None:
    meter = Meter()
    assert meter.halves() is None
    meter.note(400, 400, 1.0)
    assert meter.halves() is None
