"""Every bucket has all rows of a broadcast table: they are shown once, and copied to each bucket of another parallelism."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests.engine.remainders import broadcast
from tests.engine.stages import frame
from tests.engine.test_pipeline_checkpoints import run

from headrace.engine import StoredStates, read_state, rescale
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.stages.source_stage import PIECE_BYTES, source_stage_rows
from headrace.engine.applications.states.keys import bucket_ids
from headrace.pipelines import Message, Pipeline


def test_a_change_for_many_buckets_is_sent_in_pieces() -> None:
    app = Pipeline("app")
    rules = app.broadcast("r/*", decode=bytes)
    app.source("l/*").key_by().map_with(rules, lambda value, rows: str(rows), name="seen").sink("out")
    plan, large = Plan(app.graph, bucket_ids(40), "query", "run", 0), bytes(2**20)
    batches = source_stage_rows(plan, [frame([Message(large, b"k", 1, "r/0", 1)])])
    sizes = [(batch.nbytes, batch.num_rows) for batch in batches]
    assert sum(rows for _, rows in sizes) >= 40
    assert max(size for size, _ in sizes) < PIECE_BYTES + 2 * len(large), "the offsets of a column end at 2 GB"


def wanted(numbers: range) -> list[bytes]:
    found = []
    for number in numbers:
        rows = {n % 4: n for n in range(number + 1)}
        found.append(f"{number} {sorted(rows.items())}".encode())
    return sorted(found)


def test_rows_of_every_bucket_are_shown_once_and_copied_to_all_buckets_of_another_parallelism(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "n" / "0"
    source.parent.mkdir()
    source.write_text("".join(f"{n}\n" for n in range(45)))
    first = run(spark, tmp_path, source, broadcast(), "checkpoint")
    assert sorted(first["seen"]) == wanted(range(44)), "the last value waits for later ones"
    old = StoredStates(spark, str(tmp_path / "checkpoint"), broadcast().graph)
    rows = {0: 44, 1: 41, 2: 42, 3: 43}
    assert {size.step: size.keys for size in old.sizes()} == {"sees": 1, "sees-rows": 4}
    assert sorted(old.all("sees-rows")) == [*rows.items()]
    assert [old.find("sees-rows", key) for key in range(5)] == [*rows.values(), None]
    table = read_state(broadcast(), spark, str(tmp_path / "checkpoint"), "sees-rows")
    assert sorted((row.key, int(row.state)) for row in table.collect()) == [*rows.items()]

    assert rescale(broadcast(), spark, str(tmp_path / "checkpoint"), str(tmp_path / "more"), 5) == 5
    assert sorted(StoredStates(spark, str(tmp_path / "more"), broadcast().graph).all("sees-rows")) == [*rows.items()]
    with source.open("a") as file:
        file.writelines(f"{n}\n" for n in range(45, 80))
    then = run(spark, tmp_path, source, broadcast(), "more", into=tmp_path / "sinks")
    assert sorted(then["seen"]) == wanted(range(44, 79))
