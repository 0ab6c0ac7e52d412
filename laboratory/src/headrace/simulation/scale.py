"""How large the world of a schedule is: a small one shows most faults, in a fraction of the time."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The values from which a schedule is drawn. A tuple lists values that are equally probable.

    Attributes:
        name: Its name.
        logs: How many logs there are.
        partitions: How many partitions a log has.
        queue_partitions: How many a queue has.
        instances: How many instances a two-phase sink has.
        gateways: How many gateways, in the profile `gateways`.
        pipelines: How many queries, in the profile `pipelines`.
        queries: How many queries, in the others.
        messages: How many messages are produced.
        produce_s: For how many seconds they are produced.
        fault_s: Between which two times faults stop, in seconds.
        look_s: After how many seconds everything is looked at that should be at rest.
        tasks: How many tasks a micro-batch has.
        poll_s: How many seconds a driver waits before it asks for news again.
        faults: How many faults there are.
        max_added: How many faults of a kind a profile adds at most.
        callbacks: Before which callback a fault strikes at the latest: for seven of ten, and for the rest.
        passes: At which pass of a point it strikes at the latest.
        away_s: How many seconds a process is away.
        hangs_s: How many seconds it hangs, or cannot be reached.
        client_s: How many seconds a client takes at most to notice that its connection is cut.
        server_s: How many seconds the gateway takes at most.
    """

    name: str
    logs: tuple[int, ...]
    partitions: tuple[int, ...]
    queue_partitions: tuple[int, ...]
    instances: tuple[int, ...]
    gateways: tuple[int, ...]
    pipelines: tuple[int, ...]
    queries: tuple[int, ...]
    messages: tuple[int, ...]
    produce_s: tuple[float, ...]
    fault_s: tuple[float, float]
    look_s: float
    tasks: tuple[int, ...]
    poll_s: tuple[float, ...]
    faults: tuple[int, ...]
    max_added: int
    callbacks: tuple[int, int]
    passes: tuple[int, ...]
    away_s: tuple[float, ...]
    hangs_s: tuple[float, ...]
    client_s: tuple[float, ...]
    server_s: tuple[float, ...]

    def some(self, *counts: int) -> list[int]:
        """Returns which numbers of faults a profile may add."""
        return [count for count in counts if count <= self.max_added]


LARGE = Scale(
    name="large",
    logs=(1, 1, 1, 2),
    partitions=(1, 1, 2, 3),
    queue_partitions=(1, 1, 2),
    instances=(1, 1, 2),
    gateways=(2, 2, 3),
    pipelines=(2, 2, 3),
    queries=(1, 1, 1, 1, 2),
    messages=(5, 20, 40, 80),
    produce_s=(1.0, 4.0, 8.0),
    fault_s=(3.0, 10.0),
    look_s=16.0,
    tasks=(1, 2, 3),
    poll_s=(0.02, 0.1, 0.3),
    faults=(0, 1, 2, 3, 4, 6, 8),
    max_added=6,
    callbacks=(8_000, 1_500),
    passes=(2, 6, 30),
    away_s=(0.0, 0.01, 0.3, 2.0, 6.0),
    hangs_s=(0.05, 0.5, 3.0, 12.0),
    client_s=(0.001, 0.01, 5.0),
    server_s=(0.001, 0.01, 5.0, 12.0),
)
SMALL = Scale(
    name="small",
    logs=(1,),
    partitions=(1, 1, 1, 2),
    queue_partitions=(1,),
    instances=(1, 1, 2),
    gateways=(2,),
    pipelines=(2,),
    queries=(1,) * 9 + (2,),
    messages=(3, 6, 12),
    produce_s=(0.3, 1.0),
    fault_s=(1.0, 2.5),
    look_s=3.0,
    tasks=(1, 2),
    poll_s=(0.1, 0.3),
    faults=(0, 1, 1, 2, 3),
    max_added=2,
    callbacks=(2_000, 600),
    passes=(1, 2, 6),
    away_s=(0.0, 0.01, 0.3, 1.0),
    hangs_s=(0.05, 0.5, 3.0),
    client_s=(0.001, 0.01, 0.5),
    server_s=(0.001, 0.01, 0.5, 2.0),
)
SCALES = {scale.name: scale for scale in (SMALL, LARGE)}


def scale_of(seed: str) -> Scale:
    """Returns the scale of a mixed schedule, which its seed decides: three of four are small."""
    return LARGE if random.Random(f"{seed}/scale").random() < 0.25 else SMALL
