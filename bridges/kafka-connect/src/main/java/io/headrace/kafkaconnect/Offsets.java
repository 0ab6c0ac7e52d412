package io.headrace.kafkaconnect;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** The offset of each source partition. The partition that changed last is last. */
final class Offsets {
  private static final JsonConverter JSON = new JsonConverter();

  private final LinkedHashMap<String, Offset> byPartition = new LinkedHashMap<>();

  static {
    JSON.configure(Map.of("schemas.enable", "false"), false);
  }

  /** The offset of one source partition. */
  record Offset(Map<String, ?> partition, Map<String, ?> offset) {}

  Offsets copy() {
    Offsets copy = new Offsets();
    copy.byPartition.putAll(byPartition);
    return copy;
  }

  /** Sets the offset of a partition; null forgets the partition, as in Connect. */
  void put(String key, Map<String, ?> partition, Map<String, ?> offset) {
    byPartition.remove(key);
    if (offset != null) {
      byPartition.put(key, new Offset(partition == null ? Map.of() : partition, offset));
    }
  }

  Map<String, ?> get(String key) {
    Offset found = byPartition.get(key);
    return found == null ? null : found.offset;
  }

  void forEach(BiConsumer<String, Offset> action) {
    byPartition.forEach(action);
  }

  Collection<Offset> values() {
    return byPartition.values();
  }

  int size() {
    return byPartition.size();
  }

  /** The offsets of the partitions that changed last, at most this number of them. */
  Offsets newest(int partitions) {
    Offsets newest = new Offsets();
    byPartition.entrySet().stream()
        .skip(Math.max(0, byPartition.size() - partitions))
        .forEach(entry -> newest.byPartition.put(entry.getKey(), entry.getValue()));
    return newest;
  }

  /** What tasks and connectors ask. */
  OffsetStorageReader reader() {
    Offsets fixed = copy();
    return new OffsetStorageReader() {
      @Override
      @SuppressWarnings("unchecked")
      public <T> Map<String, Object> offset(Map<String, T> partition) {
        return (Map<String, Object>) fixed.get(key(partition));
      }

      @Override
      public <T> Map<Map<String, T>, Map<String, Object>> offsets(
          Collection<Map<String, T>> partitions) {
        Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
        partitions.forEach(partition -> found.put(partition, offset(partition)));
        return found;
      }
    };
  }

  /** What identifies a source partition, whatever the order of its keys; one may have no name. */
  static String key(Map<String, ?> partition) {
    check("partition", partition);
    return spelled(partition == null ? Map.of() : partition);
  }

  /** A map as text, the same whatever the order of its keys, and whatever type a number has. */
  static String spelled(Map<String, ?> map) {
    return new String(json(new TreeMap<>(map)), StandardCharsets.UTF_8);
  }

  /** Refuses what JSON would not give back as it was. Connect allows only primitive values, too. */
  static void check(String what, Map<String, ?> map) {
    if (map == null) {
      return;
    }
    map.forEach(
        (name, value) -> {
          if (value != null && !isPrimitive(value)) {
            throw new DataException(
                "the source %s has a %s in %s: a connector may only have finite primitive numbers, Unicode text and booleans there"
                    .formatted(what, value.getClass().getName(), name));
          }
        });
  }

  private static boolean isPrimitive(Object value) {
    return value instanceof Boolean
        || value instanceof Byte
        || value instanceof Short
        || value instanceof Integer
        || value instanceof Long
        || (value instanceof Float number && Float.isFinite(number))
        || (value instanceof Double number && Double.isFinite(number))
        || (value instanceof String text && isUnicode(text));
  }

  /** Whether a text has bytes; half of a surrogate pair has none. */
  static boolean isUnicode(String text) {
    return StandardCharsets.UTF_8.newEncoder().canEncode(text);
  }

  static byte[] json(Object value) {
    return JSON.fromConnectData("", null, value);
  }

  static Object parsed(byte[] json) {
    return JSON.toConnectData("", json).value();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Offsets that && byPartition.equals(that.byPartition);
  }

  @Override
  public int hashCode() {
    return byPartition.hashCode();
  }

  @Override
  public String toString() {
    return byPartition.values().toString();
  }
}
