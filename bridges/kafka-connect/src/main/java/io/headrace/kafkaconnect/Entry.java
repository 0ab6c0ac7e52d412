package io.headrace.kafkaconnect;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.kafka.connect.source.SourceRecord;

/** A record of a task in the {@link RecordLog}, or a filler. Guarded by the lock of the log. */
final class Entry {
  /** Objects of a record that are not counted by the bytes of its key and value. */
  static final long OVERHEAD = 1000;

  private final Object task;
  private final SourceRecord record;
  private final String partition;
  private final Optional<Content> content;
  private boolean complete;
  private boolean leftOut;

  /** The message; for a record that is not sent, the message before. */
  long sequence;

  /** The place among all records; for a filler, the record before. */
  long order;

  /** When it was appended, in nanoseconds of the log's clock. */
  long appended;

  /** Whether it must be the last message of its frame, which then has its cursor. */
  boolean endsFrame;

  /** The cursor of that frame, once it was sent. */
  byte[] cursor;

  /** Records that follow without a message. */
  List<Entry> after = List.of();

  private Entry(Object task, SourceRecord record, String partition, Optional<Content> content) {
    this.task = task;
    this.record = record;
    this.partition = partition;
    this.content = content;
  }

  /**
   * A record.
   *
   * @param task the task that it came from, and that is told when it is acknowledged
   * @param content what is sent of it; empty if it only moves the offset
   */
  static Entry of(Object task, SourceRecord record, Optional<Content> content) {
    Offsets.check("offset", record.sourceOffset());
    Entry entry = new Entry(task, record, Offsets.key(record.sourcePartition()), content);
    entry.complete = record.sourceOffset() == null;
    return entry;
  }

  /** A message without a record, for a micro-batch that would lack one. */
  static Entry filler() {
    Entry entry = new Entry(null, null, null, Optional.of(Content.filler()));
    entry.complete = true;
    return entry;
  }

  /** It cannot be sent, and is skipped or a dead letter. */
  void leaveOut() {
    leftOut = true;
  }

  boolean isLeftOut() {
    return leftOut;
  }

  boolean isFiller() {
    return record == null;
  }

  Object task() {
    return task;
  }

  SourceRecord record() {
    return record;
  }

  String partition() {
    return partition;
  }

  Map<String, ?> offset() {
    return record.sourceOffset();
  }

  Optional<Content> content() {
    return content;
  }

  /**
   * Whether its offset covers everything up to it, so that no other record of that offset follows.
   */
  boolean isComplete() {
    return complete;
  }

  void complete() {
    complete = true;
  }

  /** Whether it and another one cannot be told apart by their offsets. */
  boolean isBeside(Entry other) {
    return !isFiller()
        && !other.isFiller()
        && partition.equals(other.partition)
        && offset() != null
        && Objects.equals(offset(), other.offset());
  }

  boolean isOfPartitionOf(Entry other) {
    return partition.equals(other.partition);
  }

  /** Whether the connector would begin a snapshot again, rather than continue after this record. */
  boolean isOfSnapshot() {
    return !isFiller() && isOfSnapshot(offset());
  }

  /** Whether a connector would begin a snapshot again at an offset, as Debezium writes them. */
  static boolean isOfSnapshot(Map<String, ?> offset) {
    Object snapshot = offset == null ? null : offset.get("snapshot");
    boolean runs = snapshot != null && !"false".equals(snapshot.toString());
    return runs && !Boolean.TRUE.equals(offset.get("snapshot_completed"));
  }

  /** About how many bytes of memory it takes: twice its content, as the record holds it, too. */
  long weight() {
    return OVERHEAD + 2 * content.map(Content::bytes).orElse(0L);
  }
}
