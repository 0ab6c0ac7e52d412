package io.headrace.sdk.internal.source;

import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Position;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Where partitions begin that no checkpoint has yet. It outlives sessions: a gateway that was
 * restarted asks again, and must receive the same answer. Used by the session's thread.
 */
final class KnownStarts {
  private final Map<String, Optional<Position>> starts = new HashMap<>();
  private Set<String> listed;

  /** Notes which partitions there are. Those that appear later begin with their first message. */
  void listed(Collection<String> partitions) {
    if (listed == null) {
      listed = new LinkedHashSet<>();
    } else {
      partitions.stream()
          .filter(partition -> !listed.contains(partition))
          .forEach(partition -> starts.put(partition, Optional.empty()));
    }
    listed.addAll(partitions);
  }

  /** A checkpoint has a position: a query that is new after that begins elsewhere. */
  void acknowledged(String partition, Position position) {
    Optional<Position> start = starts.getOrDefault(partition, Optional.empty());
    if (start.isEmpty() || position.sequence() >= start.get().sequence()) {
      starts.remove(partition);
    }
  }

  /** Of which partitions the source has to be asked. */
  Set<String> unknown(Collection<String> partitions) {
    Set<String> unknown = new LinkedHashSet<>(partitions);
    unknown.removeAll(starts.keySet());
    return unknown;
  }

  /**
   * Takes the source's answer.
   *
   * @throws InvalidConnectorException if it names a partition that it was not asked for, or a
   *     cursor is larger than the gateway takes
   */
  void answered(Set<String> asked, Map<String, Position> answer, int maxCursorBytes) {
    for (Map.Entry<String, Position> entry : answer.entrySet()) {
      if (!asked.contains(entry.getKey())) {
        throw new InvalidConnectorException(
            "starts() names partition \"%s\", for which it was not asked"
                .formatted(entry.getKey()));
      }
      int cursorBytes =
          Optional.ofNullable(entry.getValue())
              .flatMap(Position::cursor)
              .map(c -> c.length)
              .orElse(0);
      if (cursorBytes > maxCursorBytes) {
        throw new InvalidConnectorException(
            "starts() gives partition \"%s\" a cursor of %d bytes: the gateway takes at most %d"
                .formatted(entry.getKey(), cursorBytes, maxCursorBytes));
      }
      if (entry.getValue() != null && entry.getValue().epoch() != 0) {
        throw new InvalidConnectorException(
            "starts() gives partition \"%s\" epoch %d: want 0"
                .formatted(entry.getKey(), entry.getValue().epoch()));
      }
    }
    asked.forEach(partition -> starts.put(partition, Optional.ofNullable(answer.get(partition))));
  }

  /** Where a partition begins; empty for its first message. */
  Optional<Position> of(String partition) {
    return starts.getOrDefault(partition, Optional.empty());
  }
}
