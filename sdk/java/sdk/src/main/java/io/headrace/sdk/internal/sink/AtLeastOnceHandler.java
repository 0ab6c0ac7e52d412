package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.Settings;
import io.headrace.sdk.sink.AtLeastOnceSink;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Writes rows as they arrive. */
final class AtLeastOnceHandler extends InOrderHandler {
  private final AtLeastOnceSink sink;
  private final Map<Long, Writing> parts = new HashMap<>();

  /** A part that is being written. */
  private static final class Writing {
    private final Part part;
    private final List<Staged.Refused> refused = new ArrayList<>();
    private long rows;

    Writing(Part part) {
      this.part = part;
    }
  }

  AtLeastOnceHandler(AtLeastOnceSink sink, SinkDriver driver, Settings settings, Answers answers) {
    super(driver, settings, answers);
    this.sink = sink;
  }

  @Override
  void start(long id, Part part) {
    parts.put(id, new Writing(part));
  }

  @Override
  void rows(long id, FrameRows rows) {
    Writing writing = parts.get(id);
    if (writing == null) {
      return;
    }
    try {
      writing.refused.addAll(
          Refusals.of(call(() -> sink.write(writing.part, rows)), rows.place(0), rows.size()));
      writing.rows += rows.size();
    } catch (Exception error) {
      parts.remove(id);
      answers().partFailed(id, writing.part, error);
    }
  }

  @Override
  void end(long id, long rows) {
    Writing writing = parts.remove(id);
    if (writing == null) {
      return;
    }
    try {
      Refusals.checkWhole(writing.rows, rows);
      List<Outcomes.Refused> late = call(() -> sink.end(writing.part, rows));
      answers().staged(id, rows, Refusals.joined(writing.refused, late, rows));
    } catch (Exception error) {
      answers().partFailed(id, writing.part, error);
    }
  }

  @Override
  void drop(long id) {
    parts.remove(id); // A sink of this mode takes nothing back.
  }

  @Override
  void prepare(Transaction transaction, List<Part> counting) {
    answers().prepared(transaction); // Everything was written before.
  }

  @Override
  void abort(Transaction transaction) {
    parts.values().removeIf(writing -> writing.part.transaction().equals(transaction));
  }

  @Override
  void release() {
    parts.clear();
  }
}
