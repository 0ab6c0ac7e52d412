package io.headrace.sdk.sessions;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.headrace.sdk.Message;
import io.headrace.sdk.sink.AtLeastOnceSink;
import io.headrace.sdk.sink.IdempotentSink;
import io.headrace.sdk.sink.Ledger;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.sink.Sink;
import io.headrace.sdk.sink.Transaction;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;

/** The sink that a script declares, and what it shows, in hex. */
record ScriptedSink(Sink sink, Supplier<List<String>> visible) {
  static ScriptedSink of(JsonObject declared) {
    String name = declared.get("name").getAsString();
    List<String> written = Collections.synchronizedList(new ArrayList<>());
    return switch (declared.get("mode").getAsString()) {
      case "two_phase" -> {
        Ledger ledger =
            new Ledger(
                name,
                ScriptedSink::shown,
                values(declared, "refuses")::contains,
                values(declared, "fails_on")::contains);
        yield new ScriptedSink(ledger, ledger::visible);
      }
      case "batch_idempotent" -> new ScriptedSink(new Table(name, written), () -> written);
      default -> new ScriptedSink(new Notes(name, written), () -> written);
    };
  }

  private static Set<String> values(JsonObject declared, String field) {
    Set<String> values = new HashSet<>();
    if (declared.has(field)) {
      for (JsonElement value : declared.getAsJsonArray(field)) {
        values.add(value.getAsString());
      }
    }
    return values;
  }

  private static String shown(Message row) {
    return row.value() == null ? "null" : HexFormat.of().formatHex(row.value());
  }

  /** A batch-idempotent sink. */
  private static final class Table implements IdempotentSink {
    private final String name;
    private final List<String> written;
    private long last = -1;

    Table(String name, List<String> written) {
      this.name = name;
      this.written = written;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public void write(Transaction transaction, RowStream rows) {
      if (transaction.batch() > last) {
        rows.forEach(some -> some.forEach(row -> written.add(shown(row))));
        last = transaction.batch();
      }
    }

    @Override
    public OptionalLong last(String pipeline) {
      return last < 0 ? OptionalLong.empty() : OptionalLong.of(last);
    }
  }

  /** An at-least-once sink. */
  private record Notes(String name, List<String> written) implements AtLeastOnceSink {
    @Override
    public Outcomes write(Part part, Rows rows) {
      rows.forEach(row -> written.add(shown(row)));
      return Outcomes.ALL_WRITTEN;
    }
  }
}
