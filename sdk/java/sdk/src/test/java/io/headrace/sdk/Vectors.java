package io.headrace.sdk;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Reads conformance/vectors, and writes values as they do. */
public final class Vectors {
  private static final Path FOLDER = Path.of("..", "..", "..", "conformance", "vectors");

  private Vectors() {}

  /** A file. */
  public static JsonObject read(String file) throws IOException {
    return JsonParser.parseString(Files.readString(FOLDER.resolve(file))).getAsJsonObject();
  }

  /** The objects in a list. */
  public static Stream<JsonObject> each(JsonArray cases) {
    return StreamSupport.stream(cases.spliterator(), false).map(JsonElement::getAsJsonObject);
  }

  /** Bytes of hex; null of null. */
  public static byte[] bytes(JsonElement hex) {
    return hex == null || hex.isJsonNull() ? null : HexFormat.of().parseHex(hex.getAsString());
  }

  /** The messages in columns. */
  public static List<Message> messages(JsonObject columns) {
    JsonArray sequences = columns.getAsJsonArray("sequences");
    List<Message> messages = new ArrayList<>();
    for (int at = 0; at < sequences.size(); at++) {
      messages.add(
          message(
              sequences.get(at).getAsLong(),
              entry(columns, "keys", at),
              entry(columns, "values", at),
              entry(columns, "event_times", at),
              entry(columns, "message_ids", at),
              entry(columns, "headers", at)));
    }
    return messages;
  }

  /** A message of its parts, each of which may be null. */
  public static Message message(
      long sequence,
      JsonElement key,
      JsonElement value,
      JsonElement time,
      JsonElement id,
      JsonElement pairs) {
    List<Header> headers = new ArrayList<>();
    if (pairs != null) {
      for (JsonElement pair : pairs.getAsJsonArray()) {
        JsonArray header = pair.getAsJsonArray();
        headers.add(new Header(header.get(0).getAsString(), bytes(header.get(1))));
      }
    }
    return new Message(
        sequence,
        bytes(key),
        bytes(value),
        time == null ? null : Instant.EPOCH.plus(time.getAsLong(), ChronoUnit.MICROS),
        id == null ? null : id.getAsString(),
        headers);
  }

  private static JsonElement entry(JsonObject columns, String name, int at) {
    JsonElement column = columns.get(name);
    JsonElement entry =
        column == null || column.isJsonNull() ? null : column.getAsJsonArray().get(at);
    return entry == null || entry.isJsonNull() ? null : entry;
  }
}
