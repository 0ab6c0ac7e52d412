package io.headrace.sdk;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.internal.Names;
import io.headrace.sdk.internal.wire.Backoff;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.Endings;
import io.headrace.sdk.internal.wire.FrameReader;
import io.headrace.sdk.internal.wire.Frames;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The vectors that all SDKs share. */
class VectorsTest {
  private static final Path VECTORS = Path.of("..", "..", "..", "conformance", "vectors");
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  @TestFactory
  Stream<DynamicTest> validFrames() throws IOException {
    return each(read("frames.json").getAsJsonArray("valid"))
        .filter(vector -> vector.get("message").getAsString().equals("Frame"))
        .map(vector -> named(vector, () -> checkFrame(vector)));
  }

  private static void checkFrame(JsonObject vector) throws Exception {
    byte[] bytes = HexFormat.of().parseHex(vector.get("hex").getAsString());
    JsonObject columns = vector.getAsJsonObject("columns");
    Frame frame = Frame.parseFrom(bytes);
    FrameReader reader = FrameReader.of(frame);
    List<Message> messages = messages(columns);
    for (int at = 0; at < messages.size(); at++) {
      assertEquals(messages.get(at), reader.message(at));
    }
    assertEquals(messages.size(), reader.count());
    if (vector.get("decode_only").getAsBoolean()) {
      return;
    }
    Columns built = new Columns();
    messages.forEach(message -> add(built, message));
    if (!columns.get("cursor").isJsonNull()) {
      built.setCursor(bytes(columns.get("cursor")));
    }
    built.pad();
    int id = columns.get("stream_id").getAsInt();
    assertEquals(
        vector.get("hex").getAsString(),
        HexFormat.of().formatHex(Frames.frame(built, id, 0, built.count()).toByteArray()));
    assertEquals(vector.get("size").getAsInt(), Frames.size(built, id, 0, built.count()));
  }

  @TestFactory
  Stream<DynamicTest> framesWhoseColumnsDoNotAddUp() throws IOException {
    Set<String> rules =
        Set.of("FRM-3", "FRM-4", "FRM-5", "FRM-6", "FRM-7", "FRM-8", "FRM-9", "FRM-10", "FRM-11");
    return each(read("frames.json").getAsJsonArray("invalid"))
        .filter(vector -> rules.contains(vector.get("rule").getAsString()))
        .filter(vector -> !vector.has("after") && !vector.has("kind") && !vector.has("limits"))
        .map(
            vector ->
                named(
                    vector,
                    () -> {
                      Frame frame =
                          Frame.parseFrom(HexFormat.of().parseHex(vector.get("hex").getAsString()));
                      assertThrows(InvalidMessageException.class, () -> FrameReader.of(frame));
                    }));
  }

  @TestFactory
  Stream<DynamicTest> namesOfSinks() throws IOException {
    return each(read("names.json").getAsJsonObject("names").getAsJsonArray("cases"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    "name " + vector.get("name").getAsString(),
                    () -> checkName(vector, name -> Names.check("the name of the sink", name))));
  }

  @TestFactory
  Stream<DynamicTest> namesOfStreams() throws IOException {
    return each(read("names.json").getAsJsonObject("streams").getAsJsonArray("cases"))
        .filter(vector -> vector.get("name").getAsString().matches("[^/]*/[^/]*"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    "stream " + vector.get("name").getAsString(),
                    () ->
                        checkName(
                            vector,
                            name -> {
                              int slash = name.indexOf('/');
                              Names.stream(name.substring(0, slash), name.substring(slash + 1));
                            })));
  }

  private static void checkName(JsonObject vector, java.util.function.Consumer<String> check) {
    String name = vector.get("name").getAsString();
    if (vector.get("valid").getAsBoolean()) {
      assertDoesNotThrow(() -> check.accept(name));
    } else {
      assertThrows(InvalidConnectorException.class, () -> check.accept(name));
    }
  }

  @TestFactory
  Stream<DynamicTest> endsOfSessions() throws IOException {
    return each(read("errors.json").getAsJsonArray("cases"))
        .map(vector -> named(vector, () -> checkEnd(vector)));
  }

  private static void checkEnd(JsonObject vector) {
    Status status =
        Status.fromCodeValue(vector.get("code").getAsInt())
            .withDescription(vector.get("text").getAsString());
    Metadata trailers = new Metadata();
    if (vector.has("details_hex") && !vector.get("details_hex").isJsonNull()) {
      trailers.put(DETAILS, HexFormat.of().parseHex(vector.get("details_hex").getAsString()));
    }
    SessionEndedException error = Endings.of("gateway:7433", status, trailers);
    assertEquals(
        vector.get("reconnect").getAsBoolean(), error instanceof GatewayUnavailableException);
    assertTrue(error.getMessage().contains(vector.get("status").getAsString()), error::getMessage);
    assertTrue(error.getMessage().contains(vector.get("text").getAsString()), error::getMessage);
  }

  @TestFactory
  Stream<DynamicTest> waitsBeforeReconnecting() throws IOException {
    return each(read("backoff.json").getAsJsonArray("cases"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    "from " + vector.get("first_ms"),
                    () -> {
                      each(vector.getAsJsonArray("bounds"))
                          .forEach(bound -> checkBound(vector, bound));
                    }));
  }

  private static void checkBound(JsonObject vector, JsonObject bound) {
    for (double share : new double[] {0, 0.5, 1}) {
      Backoff backoff =
          new Backoff(
              Duration.ofMillis(vector.get("first_ms").getAsLong()),
              Duration.ofMillis(vector.get("longest_ms").getAsLong()),
              () -> share);
      Duration wait = Duration.ZERO;
      for (int attempt = 0; attempt < bound.get("attempt").getAsInt(); attempt++) {
        wait = backoff.next();
      }
      assertEquals(share * bound.get("bound_ms").getAsLong(), wait.toNanos() / 1e6, 0.001);
    }
  }

  private static List<Message> messages(JsonObject columns) {
    JsonArray sequences = columns.getAsJsonArray("sequences");
    List<Message> messages = new ArrayList<>();
    for (int at = 0; at < sequences.size(); at++) {
      JsonElement time = entry(columns, "event_times", at);
      JsonElement id = entry(columns, "message_ids", at);
      List<Header> headers = new ArrayList<>();
      JsonElement pairs = entry(columns, "headers", at);
      if (pairs != null) {
        for (JsonElement pair : pairs.getAsJsonArray()) {
          JsonArray header = pair.getAsJsonArray();
          headers.add(new Header(header.get(0).getAsString(), bytes(header.get(1))));
        }
      }
      messages.add(
          new Message(
              sequences.get(at).getAsLong(),
              bytes(entry(columns, "keys", at)),
              bytes(entry(columns, "values", at)),
              time == null
                  ? null
                  : java.time.Instant.EPOCH.plus(time.getAsLong(), ChronoUnit.MICROS),
              id == null ? null : id.getAsString(),
              headers));
    }
    return messages;
  }

  private static JsonElement entry(JsonObject columns, String name, int at) {
    JsonElement column = columns.get(name);
    JsonElement entry =
        column == null || column.isJsonNull() ? null : column.getAsJsonArray().get(at);
    return entry == null || entry.isJsonNull() ? null : entry;
  }

  private static void add(Columns columns, Message message) {
    byte[] key = message.key();
    byte[] value = message.value();
    columns.add(
        message.sequence(),
        key,
        0,
        key == null ? 0 : key.length,
        value,
        0,
        value == null ? 0 : value.length);
    if (message.eventTime() != null) {
      columns.setEventTime(Columns.micros(message.eventTime()));
    }
    if (message.id() != null) {
      columns.setId(message.id().getBytes(StandardCharsets.UTF_8));
    }
    for (Header header : message.headers()) {
      columns.addHeader(header.name().getBytes(StandardCharsets.UTF_8), header.value());
    }
  }

  private static byte[] bytes(JsonElement hex) {
    return hex == null || hex.isJsonNull() ? null : HexFormat.of().parseHex(hex.getAsString());
  }

  private static JsonObject read(String file) throws IOException {
    return JsonParser.parseString(Files.readString(VECTORS.resolve(file))).getAsJsonObject();
  }

  private static Stream<JsonObject> each(JsonArray cases) {
    return StreamSupport.stream(cases.spliterator(), false).map(JsonElement::getAsJsonObject);
  }

  private static DynamicTest named(
      JsonObject vector, org.junit.jupiter.api.function.Executable test) {
    return DynamicTest.dynamicTest(vector.get("name").getAsString(), test);
  }
}
