package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Header;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Unsendable;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

final class RecordLogTest {
  private static final int MAX_BYTES = 4096;

  private static final int MANY = 1000;
  private static final long LIMIT = 100 * Entry.OVERHEAD;

  private final AtomicLong now = new AtomicLong();

  private RecordLog log(Replay replay) {
    RecordLog log = new RecordLog(replay, LIMIT, Long.MAX_VALUE / 2, now::get, () -> 1);
    log.reset(Optional.empty());
    return log;
  }

  private static void drop(RecordLog log) throws InterruptedException {
    for (int at = 0; at < MANY; at++) {
      String table = at % 2 == 0 ? "a" : "b";
      log.append(Recorded.dropped(Recorded.record(table, at, "dropped")), () -> false);
    }
  }

  private static void acknowledge(RecordLog log) {
    log.acknowledge(
        Position.of(1, new Cursor(1, 1, MANY + 1, false, false, new Offsets()).encoded(MAX_BYTES)));
  }

  @Test
  void manyRecordsThatAreDroppedBehindOneTakeNoMoreMemoryThanTheLastOnes() throws Exception {
    RecordLog log = log(Replay.SAFE);
    log.append(Recorded.entry(Recorded.record("a", -1, "sent")), () -> false);
    drop(log);
    acknowledge(log);
    assertEquals(List.of(1L, MANY * 1L, MANY + 1L), orders(log));
  }

  @Test
  void manyRecordsThatAreDroppedWhileNothingIsSentTakeNoMoreMemoryThanTheLastOnes()
      throws Exception {
    RecordLog log = log(Replay.EXACT);
    drop(log);
    acknowledge(log);
    assertEquals(List.of(MANY - 1L, MANY * 1L), orders(log));
  }

  private static List<Long> orders(RecordLog log) throws InterruptedException {
    return log.takeConfirmed(0).stream().map(entry -> entry.order).toList();
  }

  @Test
  void recordsOfAQueueThatAreDroppedCountUntilTheyAreConfirmed() throws Exception {
    RecordLog log = log(Replay.QUEUE);
    log.append(Recorded.entry(Recorded.record("a", -1, "sent")), () -> false);
    Thread thread =
        new Thread(
            () -> {
              try {
                drop(log);
              } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
              }
            });
    thread.setDaemon(true);
    thread.start();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (thread.getState() != Thread.State.WAITING) {
      assertNotEquals(Thread.State.TERMINATED, thread.getState(), "nothing bounds them");
      assertTrue(System.nanoTime() < deadline);
      Thread.onSpinWait();
    }
    acknowledge(log);
    thread.join();
    assertEquals(MANY + 1, orders(log).size());
  }

  @Test
  void aBatchThatIsReadAgainEndsAlsoIfItsRecordsNeedMoreMemoryThanThereIs() throws Exception {
    RecordLog log = log(Replay.SAFE);
    Content large = new Content(null, new byte[(int) LIMIT], null, List.of());
    Entry entry = Entry.of("task", Recorded.record("a", 1, "large"), Optional.of(large));
    log.append(entry, () -> false);
    log.send(entry);
    assertFalse(log.fill());
    assertTrue(log.loneCursor(LIMITS).isPresent());
    now.addAndGet(TimeUnit.MINUTES.toNanos(1));
    assertTrue(log.fill());
    log.acknowledge(Position.of(2));
    assertEquals(0, log.size());
  }

  @Test
  void aMessageThatCannotBeSentTakesNoMemoryOnceEverythingBeforeItIsAcknowledged()
      throws Exception {
    RecordLog log = log(Replay.SAFE);
    BadRecords skip = new BadRecords(BadRecords.Policy.SKIP, Optional.empty(), Secrets.NONE);
    BridgeReader reader = new BridgeReader(() -> {}, log, skip, 0, false, 0);
    log.append(Recorded.entry(Recorded.record("a", 1, "small")), () -> false);
    Content large = new Content(null, new byte[(int) LIMIT], null, List.of());
    log.append(Entry.of("task", Recorded.record("a", 2, "large"), Optional.of(large)), () -> false);
    reader.read(new Pipeline(new Random(1)).batch());
    Message message = new Message(2, large.value());
    InvalidMessageException error = new InvalidMessageException("a frame is too large");
    assertEquals(Unsendable.SKIP, reader.unsendable(message, error));
    assertEquals(2, log.size());
    log.acknowledge(Position.of(1));
    assertEquals(0, log.size());
    assertEquals(1, log.acknowledgedSequence());
    log.append(Recorded.entry(Recorded.record("a", 3, "next")), () -> false);
    assertEquals(List.of(3L), log.after(0, MANY).stream().map(one -> one.sequence).toList());
  }

  @Test
  void aMessageThatCannotBeSentIsNotSentAgainWhenTheSessionIsLost() throws Exception {
    RecordLog log = log(Replay.EXACT);
    BadRecords skip = new BadRecords(BadRecords.Policy.SKIP, Optional.empty(), Secrets.NONE);
    for (long at = 1; at <= 3; at++) {
      log.append(Recorded.entry(Recorded.record("a", at, "value " + at)), () -> false);
    }
    BridgeReader reader = new BridgeReader(() -> {}, log, skip, 0, false, 0);
    reader.unsendable(new Message(2, null), new InvalidMessageException("a frame is too large"));
    Pipeline pipeline = new Pipeline(new Random(1));
    for (int reads = 0; reads < 10; reads++) {
      reader.read(pipeline.batch());
      pipeline.send();
    }
    assertEquals(3, pipeline.received().orElseThrow().sequence());
    while (pipeline.committed().map(Position::sequence).orElse(0L) < 3) {
      pipeline.plan();
      pipeline.commit();
    }
    assertEquals(List.of("value 1", "value 3"), pipeline.values);
  }

  private static final Cursor.Limits LIMITS = new Cursor.Limits(Pipeline.MAX_CURSOR_BYTES, false);

  private static void dropUpTo(RecordLog log, long last) throws InterruptedException {
    for (long at = last - 1; at <= last; at++) {
      log.append(Recorded.dropped(Recorded.record("a", at, "dropped")), () -> false);
    }
  }

  private Optional<Cursor> moved(RecordLog log) {
    now.addAndGet(TimeUnit.SECONDS.toNanos(1));
    return log.loneCursor(LIMITS).map(Cursor::decoded);
  }

  @Test
  void droppedRecordsMoveTheCursorWithoutAMessageOnceASecondAtMost() throws Exception {
    RecordLog log = log(Replay.EXACT);
    assertTrue(moved(log).isPresent(), "whether a micro-batch is left is not known yet");
    dropUpTo(log, 2);
    Cursor cursor = moved(log).orElseThrow();
    cursor.offsets().forEach((table, at) -> assertEquals(Map.of("at", 1L), at.offset()));
    assertEquals(1, cursor.offsets().size());
    assertEquals(Optional.empty(), moved(log));
    dropUpTo(log, 4);
    assertTrue(log.loneCursor(LIMITS).isPresent());
    dropUpTo(log, 6);
    assertEquals(Optional.empty(), log.loneCursor(LIMITS), "in the same second");
    assertEquals(0, log.size());
  }

  @Test
  void aCursorMovesAgainInASessionThatFollowsALostOne() throws Exception {
    RecordLog log = log(Replay.EXACT);
    dropUpTo(log, 2);
    Cursor cursor = moved(log).orElseThrow();
    assertEquals(Optional.empty(), moved(log));
    log.beginSession();
    assertEquals(Optional.of(cursor), moved(log));
    log.acknowledge(Position.of(0, cursor.encoded(MAX_BYTES)));
    log.beginSession();
    assertEquals(Optional.empty(), moved(log));
  }

  @Test
  void whatFollowsASnapshotWaitsUntilACursorThatSaysSoIsAcknowledged() throws Exception {
    RecordLog log = log(Replay.EXACT);
    Map<String, Object> row = Map.of("snapshot", true, "at", 0L);
    log.append(Recorded.entry(Recorded.record("a", row, "row")), () -> false);
    for (long at = 1; at <= 3; at++) {
      log.append(Recorded.entry(Recorded.record("a", at, "change " + at)), () -> false);
    }
    List<Entry> sent = log.after(0, MANY);
    sent.forEach(log::send);
    long last = sent.get(sent.size() - 1).sequence;
    assertTrue(last < 4, "changes wait");
    assertEquals(Optional.empty(), moved(log), "not everything before is acknowledged");
    log.acknowledge(Position.of(last));
    Cursor cursor = moved(log).orElseThrow();
    assertEquals(
        List.of(true, true, last), List.of(cursor.exact(), cursor.barrier(), cursor.sequence()));
    assertEquals(List.of(), log.after(last, MANY));
    log.acknowledge(Position.of(last, cursor.encoded(MAX_BYTES)));
    assertEquals(4 - last, log.after(last, MANY).size());
  }

  @Test
  void headersCountAsMuchAsValues() {
    List<Header> headers = List.of(new Header("h", new byte[10_000]));
    Content content = new Content(null, null, null, headers);
    Entry entry = Entry.of("task", Recorded.record("a", 1, "v"), Optional.of(content));
    assertTrue(entry.weight() > 20_000);
  }
}
