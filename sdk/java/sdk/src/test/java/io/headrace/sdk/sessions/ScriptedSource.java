package io.headrace.sdk.sessions;

import static io.headrace.sdk.Vectors.bytes;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.Vectors;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.Deliveries;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.PositionLostException;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.QueueReader;
import io.headrace.sdk.source.RedeliveringSource;
import io.headrace.sdk.source.ReplayableSource;
import io.headrace.sdk.source.ResumableSource;
import io.headrace.sdk.source.Source;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/** The source that a script declares. */
final class ScriptedSource {
  private static final long DEADLINE_NANOS = Duration.ofMinutes(2).toNanos();

  private final String name;
  private final String kind;
  private final Map<String, Position> starts = new TreeMap<>();
  private final Map<String, Partition> partitions = new TreeMap<>();
  private final List<String> settled = new ArrayList<>();

  ScriptedSource(JsonObject declared) {
    name = declared.get("name").getAsString();
    kind = declared.get("kind").getAsString();
    declared
        .getAsJsonObject("partitions")
        .asMap()
        .forEach((partition, what) -> partitions.put(partition, new Partition(what)));
    if (declared.has("starts")) {
      declared
          .getAsJsonObject("starts")
          .asMap()
          .forEach((partition, at) -> starts.put(partition, Position.of(at.getAsLong())));
    }
  }

  /** The content of a partition. */
  private static final class Partition {
    private final List<Row> rows = new ArrayList<>();
    private final Progress atEnd;
    private final boolean pruned;

    Partition(JsonElement declared) {
      JsonObject fields = declared.getAsJsonObject();
      fields.getAsJsonArray("messages").forEach(message -> rows.add(Row.of(message)));
      atEnd = fields.get("then").getAsString().equals("ends") ? Progress.END : Progress.IDLE;
      pruned = fields.has("pruned") && fields.get("pruned").getAsBoolean();
    }
  }

  /** A message; the value names it in a queue. */
  private record Row(Message message, byte[] cursor, String token) {
    static Row of(JsonElement declared) {
      JsonObject fields = declared.getAsJsonObject();
      Message message =
          Vectors.message(
              fields.has("sequence") ? fields.get("sequence").getAsLong() : 0,
              fields.get("key"),
              fields.get("value"),
              fields.get("event_time"),
              fields.get("message_id"),
              fields.get("headers"));
      String token = message.value() == null ? "" : fields.get("value").getAsString();
      return new Row(message, bytes(fields.get("cursor")), token);
    }
  }

  Source source() {
    return switch (kind) {
      case "redelivering" -> new Queue();
      case "resumable" -> new Feed();
      default -> new Log();
    };
  }

  /** Further messages appear. */
  synchronized void append(JsonObject more) {
    more.asMap()
        .forEach(
            (partition, messages) ->
                messages
                    .getAsJsonArray()
                    .forEach(message -> partitions.get(partition).rows.add(Row.of(message))));
  }

  /** Waits until exactly these messages are acknowledged to the queue. */
  synchronized void awaitSettled(List<String> wanted) throws InterruptedException {
    long deadline = System.nanoTime() + DEADLINE_NANOS;
    while (!settled.equals(wanted)) {
      long left = (deadline - System.nanoTime()) / 1_000_000;
      if (left <= 0) {
        throw new AssertionError(settled + " are settled, and the script wants " + wanted);
      }
      wait(left);
    }
  }

  private synchronized Optional<Row> row(String partition, int index) {
    List<Row> rows = partitions.get(partition).rows;
    return index < rows.size() ? Optional.of(rows.get(index)) : Optional.empty();
  }

  private synchronized void settle(List<String> tokens) {
    settled.addAll(tokens);
    notifyAll();
  }

  private synchronized boolean isSettled(String token) {
    return settled.contains(token);
  }

  /** A replayable source. */
  private final class Log implements ReplayableSource {
    @Override
    public String name() {
      return name;
    }

    @Override
    public List<String> partitions() {
      return List.copyOf(partitions.keySet());
    }

    @Override
    public boolean choosesStart() {
      return !starts.isEmpty();
    }

    @Override
    public Map<String, Position> starts(Set<String> wanted) {
      return starts;
    }

    @Override
    public PartitionReader open(String partition, Optional<Position> position)
        throws PositionLostException {
      Partition declared = partitions.get(partition);
      long after = position.map(Position::sequence).orElse(-1L);
      if (declared.pruned && position.isPresent()) {
        long first = declared.rows.get(0).message.sequence();
        if (after + 1 < first) {
          throw new PositionLostException("pruned", first);
        }
      }
      return new PartitionReader() {
        private int next;

        @Override
        public Progress read(Batch batch) {
          Optional<Row> row = row(partition, next);
          if (row.isEmpty()) {
            return declared.atEnd;
          }
          next++;
          if (row.get().message.sequence() > after) {
            batch.add(row.get().message);
            if (row.get().cursor != null) {
              batch.cursor(row.get().cursor);
            }
          }
          return Progress.MORE;
        }
      };
    }
  }

  /** A resumable source. */
  private final class Feed implements ResumableSource {
    @Override
    public String name() {
      return name;
    }

    @Override
    public List<String> partitions() {
      return List.copyOf(partitions.keySet());
    }

    @Override
    public PartitionReader open(String partition, Optional<Position> position) {
      byte[] place = position.flatMap(Position::cursor).orElse(null);
      return new PartitionReader() {
        private long sequence = position.map(Position::sequence).orElse(0L);
        private int next;

        @Override
        public Progress read(Batch batch) {
          Optional<Row> row = row(partition, next);
          if (row.isEmpty()) {
            return partitions.get(partition).atEnd;
          }
          next++;
          byte[] cursor = row.get().cursor;
          if (place == null || Arrays.compareUnsigned(cursor, place) > 0) {
            sequence++;
            batch.add(sequence, row.get().message.key(), row.get().message.value());
            batch.cursor(cursor);
          }
          return Progress.MORE;
        }
      };
    }
  }

  /** A redelivering source. */
  private final class Queue implements RedeliveringSource<String> {
    @Override
    public String name() {
      return name;
    }

    @Override
    public List<String> partitions() {
      return List.copyOf(partitions.keySet());
    }

    @Override
    public QueueReader<String> open(String partition) {
      return new QueueReader<>() {
        private int next;

        @Override
        public Progress read(Deliveries<String> deliveries) {
          Optional<Row> row = row(partition, next);
          if (row.isEmpty()) {
            return partitions.get(partition).atEnd;
          }
          next++;
          if (!isSettled(row.get().token)) {
            Message message = row.get().message;
            var attributes = deliveries.add(row.get().token, message.key(), message.value());
            if (message.id() != null) {
              attributes.id(message.id());
            }
          }
          return Progress.MORE;
        }

        @Override
        public void acknowledged(List<String> tokens) {
          settle(tokens);
        }
      };
    }
  }
}
