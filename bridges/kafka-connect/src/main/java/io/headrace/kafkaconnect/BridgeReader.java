package io.headrace.kafkaconnect;

import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.Unsendable;
import java.util.List;

/** Sends what the log has after a position. */
final class BridgeReader implements PartitionReader {
  private static final int MAX_ENTRIES = 512;

  /** What must be attended to on the thread that reads. */
  interface Attendance {
    void attend() throws Exception;
  }

  private final Attendance host;
  private final RecordLog log;
  private final BadRecords badRecords;
  private final long resumed;
  private final boolean forget;
  private final long waitMillis;
  private long read;
  private boolean cutting;

  /**
   * A reader.
   *
   * @param host the connector
   * @param resumed everything up to this sequence has arrived
   * @param forget whether a cursor may leave out the oldest source partitions
   * @param waitMillis how long it waits for records
   */
  BridgeReader(
      Attendance host,
      RecordLog log,
      BadRecords badRecords,
      long resumed,
      boolean forget,
      long waitMillis) {
    this.host = host;
    this.log = log;
    this.badRecords = badRecords;
    this.resumed = resumed;
    this.forget = forget;
    this.waitMillis = waitMillis;
    log.beginSession();
  }

  @Override
  public Progress read(Batch batch) throws Exception {
    if (cutting && !batch.isEmpty()) {
      return Progress.IDLE; // the frame ends here
    }
    cutting = false;
    host.attend();
    List<Entry> entries = log.after(read, MAX_ENTRIES);
    Entry last = null;
    for (Entry entry : entries) {
      if (batch.isFull() || cutting) {
        break;
      }
      log.send(entry);
      read = entry.sequence;
      if (entry.sequence > resumed && !entry.isLeftOut()) {
        add(batch, entry);
        cutting = entry.endsFrame;
        last = entry;
      }
    }
    Cursor.Limits limits = new Cursor.Limits(batch.maxCursorBytes(), forget);
    if (last != null) {
      log.cursor(last, limits).ifPresent(batch::cursor);
    }
    if (!entries.isEmpty() || log.fill()) {
      return Progress.MORE;
    }
    log.loneCursor(limits).ifPresent(batch::cursor);
    if (batch.isEmpty()) {
      log.await(read, waitMillis);
    }
    return Progress.IDLE;
  }

  private static void add(Batch batch, Entry entry) {
    Content content = entry.content().orElseThrow();
    Attributes attributes = batch.add(entry.sequence, content.key(), content.value());
    if (content.timestamp() != null) {
      attributes.eventTimeMicros(1000 * content.timestamp());
    }
    content.headers().forEach(header -> attributes.header(header.name(), header.value()));
  }

  @Override
  public void acknowledged(Position position) {
    log.acknowledge(position);
  }

  @Override
  public Unsendable unsendable(Message message, InvalidMessageException error) throws Exception {
    if (!badRecords.takes(BadRecord.of(message), error.getMessage())) {
      return Unsendable.FAIL;
    }
    log.leaveOut(message.sequence());
    log.beginSession();
    return Unsendable.SKIP;
  }
}
