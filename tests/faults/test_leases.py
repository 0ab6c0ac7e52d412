"""A query holds its place while Spark works on a batch, however long that takes."""

from collections.abc import Callable

from tests.faults.rig import Rig
from tests.faults.sources import Numbers

from headrace.protocol.v1 import admin_pb2

LEASE_MS = 500


def test_a_batch_that_takes_many_leases_leaves_its_query_attached(rig: Callable[[str], Rig]) -> None:
    world = rig(f"[limits]\nquery_lease_seconds = {LEASE_MS / 1000}\nforget_after_seconds = {LEASE_MS / 1000}\n")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 100)
    query = world.query("long", "record", "numbers/*", {"pipeline": "long"})
    world.gateway.start()
    world.connector("numbers").start()
    query.block()
    world.run(query)
    world.wait_until("the first batch is planned", lambda: query.plans > 0)

    def attached() -> bool:
        pipeline = world.gateway.pipeline("long")
        return pipeline is not None and pipeline.state == admin_pb2.PIPELINE_STATE_ATTACHED

    world.wait_until("it is attached", attached)
    assert world.holds(attached, 6 * LEASE_MS / 1000), "nothing but renewals comes meanwhile"
    assert source.acked("0") < 100
    query.unblock()
    world.wait_until("all is acknowledged", lambda: source.acked("0") == 100)
