package io.headrace.sdk;

import static io.headrace.sdk.Vectors.bytes;
import static io.headrace.sdk.Vectors.each;
import static io.headrace.sdk.Vectors.messages;
import static io.headrace.sdk.Vectors.read;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.internal.Names;
import io.headrace.sdk.internal.wire.Addresses;
import io.headrace.sdk.internal.wire.Backoff;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.Endings;
import io.headrace.sdk.internal.wire.FrameReader;
import io.headrace.sdk.internal.wire.Frames;
import java.io.IOException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The vectors that all SDKs share. */
class VectorsTest {
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
    messages.forEach(built::add);
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
  Stream<DynamicTest> addressesOfThisMachine() throws IOException {
    return each(read("addresses.json").getAsJsonObject("addresses").getAsJsonArray("cases"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    vector.get("address").getAsString(),
                    () ->
                        assertEquals(
                            vector.get("here").getAsBoolean(),
                            Addresses.leadsHere(vector.get("address").getAsString()))));
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
              Duration.ofMillis(vector.get("max_ms").getAsLong()),
              () -> share);
      Duration wait = Duration.ZERO;
      for (int attempt = 0; attempt < bound.get("attempt").getAsInt(); attempt++) {
        wait = backoff.next();
      }
      assertEquals(share * bound.get("bound_ms").getAsLong(), wait.toNanos() / 1e6, 0.001);
    }
  }

  private static DynamicTest named(
      JsonObject vector, org.junit.jupiter.api.function.Executable test) {
    return DynamicTest.dynamicTest(vector.get("name").getAsString(), test);
  }
}
