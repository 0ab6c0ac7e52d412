package io.headrace.sdk.sessions;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import io.headrace.sdk.Vectors;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.FrameReader;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HexFormat;

/** Frames as scripts write them: a list for each column. */
final class Frames {
  private Frames() {}

  /** The columns of a frame of a source. */
  static JsonObject columns(Frame frame) {
    FrameReader reader = FrameReader.of(frame);
    JsonObject columns = new JsonObject();
    columns.addProperty("stream_id", frame.getStreamId());
    columns.add(
        "cursor", frame.hasCursor() ? hex(frame.getCursor().toByteArray()) : JsonNull.INSTANCE);
    for (String name :
        new String[] {"sequences", "keys", "values", "event_times", "message_ids", "headers"}) {
      columns.add(name, new JsonArray());
    }
    for (int at = 0; at < reader.count(); at++) {
      Message message = reader.message(at);
      columns.getAsJsonArray("sequences").add(Long.toUnsignedString(message.sequence()));
      columns.getAsJsonArray("keys").add(hex(message.key()));
      columns.getAsJsonArray("values").add(hex(message.value()));
      columns.getAsJsonArray("event_times").add(micros(message.eventTime()));
      columns.getAsJsonArray("message_ids").add(message.id());
      JsonArray headers = new JsonArray();
      for (Header header : message.headers()) {
        JsonArray pair = new JsonArray();
        pair.add(header.name());
        pair.add(hex(header.value()));
        headers.add(pair);
      }
      columns.getAsJsonArray("headers").add(headers);
    }
    return columns;
  }

  /** The messages of columns from one index up to another. */
  static JsonObject part(JsonObject columns, int start, int stop) {
    JsonObject part = new JsonObject();
    columns
        .asMap()
        .forEach(
            (name, column) -> {
              if (column.isJsonArray()) {
                JsonArray some = new JsonArray();
                column.getAsJsonArray().asList().subList(start, stop).forEach(some::add);
                part.add(name, some);
              } else {
                part.add(name, column);
              }
            });
    return part;
  }

  /** A frame for a sink. */
  static SinkServiceAttachResponse ofSink(JsonObject declared) {
    Columns columns = new Columns();
    Vectors.messages(declared.getAsJsonObject("frame")).forEach(columns::add);
    columns.pad();
    Frame frame = io.headrace.sdk.internal.wire.Frames.frame(columns, 0, 0, columns.count());
    return SinkServiceAttachResponse.newBuilder()
        .setFrame(PartFrame.newBuilder().setId(declared.get("id").getAsLong()).setFrame(frame))
        .build();
  }

  private static JsonElement hex(byte[] bytes) {
    return bytes == null ? JsonNull.INSTANCE : new JsonPrimitive(HexFormat.of().formatHex(bytes));
  }

  private static JsonElement micros(Instant time) {
    return time == null
        ? JsonNull.INSTANCE
        : new JsonPrimitive(Long.toString(ChronoUnit.MICROS.between(Instant.EPOCH, time)));
  }
}
