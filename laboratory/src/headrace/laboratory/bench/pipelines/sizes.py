"""How much the pipelines benchmark measures: all of it, what fits into ten minutes, or just enough to check that it works."""

from dataclasses import dataclass, replace

from headrace.laboratory.bench.latency.measure import Pace


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all parts.

    Attributes:
        loop_messages: Messages that a plain loop over the functions takes.
        end_to_end_messages: Messages from a connector in each run that counts; a quarter of them warms up.
        end_to_end_runs: The number of these runs.
        batch_messages: Messages in a large micro-batch.
        batches: Large micro-batches that count in each run of Spark's part alone.
        runs: The number of these runs.
        count_batches: Large micro-batches that count with Spark's own count.
        words: Different words of the word count.
        batch_against_350: Messages in a micro-batch that is compared with transformWithState over 350 keys.
        batch_against_200k: The same over `words` keys.
        latency: How messages are sent for the latency.
        restart_keys: Keys whose states a restarted driver finds.
        restarts: How often it is killed and restarted.
        small_batch_keys: Keys whose states exist when small micro-batches are measured: the baseline's, and many.
        small_batch_messages: Messages in a small micro-batch.
        small_batches: Small micro-batches that count.
        small_batches_to_skip: Those before them for each worker, so that it has cached nearly every bucket.
        memory_keys: Keys whose states are in a worker whose memory is measured.
        curve_keys: The curve's numbers of keys.
        curve_batch_messages: Messages in a large micro-batch of the curves.
        curve_batches: Large micro-batches that count at each of them.
        curve_states: The curve's numbers of keys that all exist before the micro-batches that count.
        meeting_messages: Messages in each run of a join, a window or async calls alone.
        meeting_rounds: The number of these runs, in turns with what they are compared with.
        interval_messages: Messages in a micro-batch of an interval join, of both streams.
        interval_batches: Micro-batches that count.
        interval_rounds: The number of runs of Spark's own join.
        peer_messages: Messages that a peer takes.
    """

    loop_messages: int = 1_000_000
    end_to_end_messages: int = 8_000_000
    end_to_end_runs: int = 3
    batch_messages: int = 1_000_000
    batches: int = 8
    runs: int = 3
    count_batches: int = 4
    words: int = 200_000
    batch_against_350: int = 1_000_000
    batch_against_200k: int = 1_000_000
    latency: Pace = Pace(10_000, 10, 20)  # noqa: RUF009  # It is frozen.
    restart_keys: int = 1_000_000
    restarts: int = 5
    small_batch_keys: tuple[int, int] = (10_000, 10_000_000)
    small_batch_messages: int = 10_000
    small_batches: int = 40
    small_batches_to_skip: int = 10
    memory_keys: int = 1_000_000
    curve_keys: tuple[int, ...] = (350, 10_000, 200_000, 1_000_000)
    curve_batch_messages: int = 1_000_000
    curve_batches: int = 5
    curve_states: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    meeting_messages: int = 400_000
    meeting_rounds: int = 6
    interval_messages: int = 200_000
    interval_batches: int = 5
    interval_rounds: int = 3
    peer_messages: int = 2_000_000


LONG = Sizes()
SHORT = replace(
    LONG,
    end_to_end_messages=3_000_000,
    end_to_end_runs=1,
    batch_messages=500_000,
    batches=4,
    runs=1,
    count_batches=2,
    batch_against_350=250_000,
    batch_against_200k=50_000,
    meeting_messages=100_000,
    meeting_rounds=4,
    interval_messages=100_000,
    interval_batches=3,
    interval_rounds=1,
)
QUICK = Sizes(
    loop_messages=100_000,
    end_to_end_messages=200_000,
    end_to_end_runs=1,
    batch_messages=40_000,
    batches=2,
    runs=1,
    count_batches=2,
    words=2_000,
    batch_against_350=40_000,
    batch_against_200k=40_000,
    latency=Pace(1_000, 4, 4),
    restart_keys=20_000,
    restarts=1,
    small_batch_keys=(1_000, 50_000),
    small_batch_messages=1_000,
    small_batches=5,
    small_batches_to_skip=2,
    memory_keys=100_000,
    curve_keys=(350, 1_000, 5_000),
    curve_batch_messages=40_000,
    curve_batches=2,
    curve_states=(1_000, 10_000),
    meeting_messages=20_000,
    meeting_rounds=1,
    interval_messages=10_000,
    interval_batches=2,
    interval_rounds=1,
    peer_messages=100_000,
)
