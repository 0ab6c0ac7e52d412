"""Everything of kafka-python's that it does not offer to others, and that the connectors use: what they rely on, one by one.

Where one of these fails, a release of kafka-python has changed what `internals.py` uses: look there before its cap is raised.
"""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import TopicPartitionState
from kafka.net import manager, transport
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.record import MemoryRecords, default_records
from kafka.record.memory_records import MemoryRecordsBuilder
from tests.connectors.private_names import private_names

import headrace.connectors.kafka as package
from headrace.connectors.kafka import client, producer, stretches
from headrace.connectors.kafka.checksum import crc32c
from headrace.connectors.kafka.internals import HearingManager, raw, seek, sender, take_apart_with, transactions
from headrace.connectors.kafka.stretches import Fetched

HERE = Path(package.__file__).parent
USED = {"_buffer", "_build_transport", "_fetcher", "_sender", "_sock_recv", "_subscription", "_transaction_manager"}


def test_all_that_is_used_is_in_one_module():
    """Elsewhere no private name is one that the classes of kafka-python have which are used or subclassed."""
    classes = [KafkaConsumer, KafkaProducer, Fetcher, Fetcher.PartitionRecords, Sender, TransactionManager]
    classes += [default_records.DefaultRecordBatch, manager.KafkaConnectionManager, transport.KafkaTCPTransport]
    theirs = {name for owner in classes for name in re.findall(r"\b_[a-z]\w*", inspect.getsource(owner))}
    assert private_names(HERE / "internals.py") == USED
    assert theirs >= USED
    for path in HERE.glob("*.py"):
        if path.name != "internals.py":
            tree = ast.parse(path.read_text())
            own = {name.attr for name in ast.walk(tree) if isinstance(name, ast.Attribute) and isinstance(name.ctx, ast.Store)}
            own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert not (private_names(path) - own) & theirs, path.name


@pytest.mark.parametrize("kind", [client.Client, client._Manager, producer.Producer, producer._Client, stretches.StretchConsumer])
def test_no_private_method_is_overridden_elsewhere(kind):
    theirs = [base for base in kind.__mro__ if base.__module__.startswith("kafka.")]
    private = {name for name in vars(kind) if name.startswith("_") and not name.startswith("__")}
    assert theirs
    assert not private & {name for base in theirs for name in re.findall(r"\b_[a-z]\w*", inspect.getsource(base))}


def test_checksums_are_looked_up_where_they_are_replaced():
    assert default_records.calc_crc32c is crc32c
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    builder.append(0, None, b"x", [])
    builder.close()
    (batch,) = MemoryRecords(bytes(builder.buffer()))
    assert batch.validate_crc()
    assert batch.crc == crc32c(raw(batch)[default_records.DefaultRecordBatch.ATTRIBUTES_OFFSET :])
    assert raw(batch) == bytes(builder.buffer())


def test_a_consumer_makes_what_it_takes_records_from_with_what_it_was_given():
    """The fetcher's arguments, and the members that it uses, are what `Fetched` has."""
    consumer = SimpleNamespace(_fetcher=SimpleNamespace())
    take_apart_with(consumer, Fetched)
    assert consumer._fetcher.PartitionRecords is Fetched
    fetcher = inspect.getsource(Fetcher)
    assert "parsed_records = self.PartitionRecords(fetch_offset, tp, records," in fetcher
    assert "self._fetcher = Fetcher(" in inspect.getsource(KafkaConsumer)
    given = set(inspect.signature(Fetcher.PartitionRecords).parameters)
    assert given == {
        "fetch_offset", "tp", "records", "key_deserializer", "value_deserializer", "check_crcs", "isolation_level",
        "aborted_transactions", "metric_aggregator", "on_drain",
    }  # fmt: skip
    outside = fetcher.replace(inspect.getsource(Fetcher.PartitionRecords), "")
    used = set(re.findall(r"(?:\bpart|\bpartition_records|self\._next_partition_records|\bparked)\.(\w+)", outside))
    fetched = Fetched(0, TopicPartition("t", 0), MemoryRecords(b""))
    assert used == {"topic_partition", "next_fetch_offset", "leader_epoch", "bytes_read", "take", "drain"}
    assert all(hasattr(fetched, name) for name in used)


@pytest.mark.parametrize("kind", [transport.KafkaTCPTransport, transport.KafkaSSLTransport])
def test_a_connection_hears_a_broker_out_that_closes_it(monkeypatch, kind):
    """What it says last, and that it ends, come together: first the one, then the other."""
    assert kind._sock_recv is not None
    assert "self._sock_recv()" in inspect.getsource(kind) + inspect.getsource(transport.KafkaTCPTransport)
    assert "await self._build_transport(" in inspect.getsource(manager.KafkaConnectionManager)
    answers = [(b"refused", ConnectionResetError()), (b"", ConnectionResetError())]
    connection = SimpleNamespace(_sock_recv=lambda: answers.pop(0))

    async def build(*_: object, **__: object) -> object:
        return connection

    monkeypatch.setattr(manager.KafkaConnectionManager, "_build_transport", build)
    heard = asyncio.run(HearingManager._build_transport(object.__new__(HearingManager)))
    assert heard._sock_recv() == (b"refused", None)
    data, error = heard._sock_recv()
    assert (data, type(error)) == (b"", ConnectionResetError)


def test_a_consumer_seeks_with_the_epoch_of_the_record_before():
    state = TopicPartitionState()
    consumer = SimpleNamespace(_subscription=SimpleNamespace(assignment={TopicPartition("t", 0): state}))
    seek(consumer, TopicPartition("t", 0), 5, 3)
    assert (state.position.offset, state.position.leader_epoch, state.is_fetchable()) == (5, 3, True)
    assert "self._subscription = SubscriptionState(" in inspect.getsource(KafkaConsumer)
    assert "self._subscription.assignment[partition].seek(offset)" in inspect.getsource(KafkaConsumer.seek)


def test_a_producer_has_its_transactions_and_its_thread_where_they_are_expected():
    producer = SimpleNamespace(_transaction_manager=1, _sender=2)
    assert (transactions(producer), sender(producer)) == (1, 2)
    source = inspect.getsource(KafkaProducer)
    assert "self._transaction_manager = TransactionManager(" in source
    assert "self._sender = Sender(" in source
    # How `commit_transaction` begins, but for waiting for ever.
    begun = re.search(
        r"result = self\._transaction_manager\.begin_commit\(\)\s+self\._sender\.wakeup\(\)\s+result\.wait\(\)", source
    )
    assert begun is not None
    assert isinstance(TransactionManager.last_error, property)
    for method in (TransactionManager.is_bumping_epoch, Sender.wakeup, Sender.force_close):
        assert list(inspect.signature(method).parameters) == ["self"]
