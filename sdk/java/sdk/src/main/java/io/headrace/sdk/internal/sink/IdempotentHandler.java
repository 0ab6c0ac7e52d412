package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.sink.IdempotentSink;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.sink.Transaction;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;

/** Holds parts, and writes each transaction when its vote is asked for. */
final class IdempotentHandler extends InOrderHandler {
  private final IdempotentSink sink;
  private final SinkDriver driver;
  private final int limit;
  private final AtomicLong memory = new AtomicLong();
  private final Map<Long, Arriving> parts = new HashMap<>();
  private final Map<String, Long> voted = new HashMap<>();

  /** A part, and what has arrived of it. */
  private static final class Arriving {
    private final Part part;
    private final HeldRows held;
    private final List<Staged.Refused> refused = new ArrayList<>();
    private long rows;
    private boolean whole;

    Arriving(Part part, HeldRows held) {
      this.part = part;
      this.held = held;
    }
  }

  IdempotentHandler(IdempotentSink sink, SinkDriver driver, Settings settings, Answers answers) {
    super(driver, settings, answers);
    this.sink = sink;
    this.driver = driver;
    this.limit = settings.holdBytes();
  }

  @Override
  void start(long id, Part part) {
    driver.saw(part.transaction().pipeline());
    parts.put(id, new Arriving(part, new HeldRows(memory, limit)));
  }

  @Override
  void rows(long id, FrameRows rows) {
    Arriving arriving = parts.get(id);
    if (arriving == null) {
      return;
    }
    try {
      List<Staged.Refused> refused =
          Refusals.of(call(() -> sink.check(rows)), rows.place(0), rows.size());
      FrameRows kept = rows;
      if (!refused.isEmpty()) {
        Set<Long> places = new HashSet<>();
        refused.forEach(row -> places.add(row.getSequence()));
        kept = rows.without(places::contains);
      }
      if (kept != null) {
        arriving.held.add(kept);
      }
      arriving.refused.addAll(refused);
      arriving.rows += rows.size();
    } catch (Exception error) {
      drop(id);
      answers().partFailed(id, arriving.part, error);
    }
  }

  @Override
  void end(long id, long rows) {
    Arriving arriving = parts.get(id);
    if (arriving == null) {
      return;
    }
    try {
      Refusals.checkWhole(arriving.rows, rows);
      arriving.whole = true;
      answers().staged(id, rows, arriving.refused);
    } catch (InvalidMessageException error) {
      drop(id);
      answers().partFailed(id, arriving.part, error);
    }
  }

  @Override
  void drop(long id) {
    Arriving arriving = parts.remove(id);
    if (arriving != null) {
      arriving.held.release();
    }
  }

  @Override
  void prepare(Transaction transaction, List<Part> counting) {
    try {
      Long last = voted.get(transaction.pipeline());
      if (last == null || last != transaction.batch()) {
        write(transaction, counting);
      }
    } catch (Exception error) {
      // The parts are kept for another attempt.
      answers().transactionFailed(transaction, "writing", error);
      return;
    }
    voted.put(transaction.pipeline(), transaction.batch());
    abort(transaction);
    answers().prepared(transaction);
  }

  @Override
  void abort(Transaction transaction) {
    List<Long> ids =
        parts.entrySet().stream()
            .filter(entry -> entry.getValue().part.transaction().equals(transaction))
            .map(Map.Entry::getKey)
            .toList();
    ids.forEach(this::drop);
  }

  @Override
  void release() {
    List.copyOf(parts.keySet()).forEach(this::drop);
  }

  private void write(Transaction transaction, List<Part> counting) throws Exception {
    OptionalLong last = call(() -> sink.last(transaction.pipeline()));
    if (last.isPresent() && last.getAsLong() == transaction.batch()) {
      return;
    }
    Map<Part, HeldRows> whole = new HashMap<>();
    parts.values().stream()
        .filter(arriving -> arriving.whole)
        .forEach(arriving -> whole.put(arriving.part, arriving.held));
    List<HeldRows> held = new ArrayList<>();
    for (Part part : counting) {
      HeldRows rows = whole.get(part);
      if (rows == null) {
        throw new InvalidMessageException(
            "partition %d, attempt %s, is no longer here"
                .formatted(part.partition(), part.attempt()));
      }
      held.add(rows);
    }
    run(() -> sink.write(transaction, new Held(held)));
  }

  /** The rows of all parts that count. */
  private static final class Held implements RowStream {
    private final List<HeldRows> parts;
    private boolean taken;

    Held(List<HeldRows> parts) {
      this.parts = parts;
    }

    @Override
    public Iterator<Rows> iterator() {
      if (taken) {
        throw new IllegalStateException("rows can be iterated over once");
      }
      taken = true;
      return new Iterator<>() {
        private int part;
        private int piece;

        @Override
        public boolean hasNext() {
          while (part < parts.size() && piece >= parts.get(part).size()) {
            part++;
            piece = 0;
          }
          return part < parts.size();
        }

        @Override
        public Rows next() {
          if (!hasNext()) {
            throw new NoSuchElementException();
          }
          try {
            return parts.get(part).get(piece++);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        }
      };
    }
  }
}
