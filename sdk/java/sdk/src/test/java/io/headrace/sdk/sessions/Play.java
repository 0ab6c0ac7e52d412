package io.headrace.sdk.sessions;

import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.rpc.ErrorInfo;
import io.headrace.sdk.Connector;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.HeadraceException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Plays the gateway of a script of conformance/vectors/sessions. */
final class Play<Q extends Message, R extends Message> {
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  /** Messages that a connector may send at any time. */
  private static final Set<String> PASSED_OVER =
      Set.of("backlog", "credit_request", "report", "busy");

  private final Calls<Q, R> calls;
  private final R response;
  private final Connector connector;
  private final Steps steps;
  private final Labels labels = new Labels();
  private FakeGateway.Session<Q, R> session;

  /** Takes the next call of the connector. */
  interface Calls<Q extends Message, R> {
    FakeGateway.Session<Q, R> next() throws InterruptedException;
  }

  /** Has something happen to the source or sink, or waits for it. */
  interface Steps {
    void take(JsonObject step) throws InterruptedException;
  }

  Play(Calls<Q, R> calls, R response, Connector connector, Steps steps) {
    this.calls = calls;
    this.response = response;
    this.connector = connector;
    this.steps = steps;
  }

  /** Takes all steps of a script. */
  void run(JsonArray script) throws Exception {
    for (JsonElement step : script) {
      Map.Entry<String, JsonElement> only = step.getAsJsonObject().entrySet().iterator().next();
      try {
        take(only.getKey(), only.getValue());
      } catch (AssertionError error) {
        throw new AssertionError("at the step " + step + ": " + error.getMessage(), error);
      }
    }
  }

  private void take(String kind, JsonElement what) throws Exception {
    switch (kind) {
      case "connector" -> expect(List.of(what.getAsJsonObject()));
      case "connector_in_any_order" ->
          expect(
              what.getAsJsonArray().asList().stream().map(JsonElement::getAsJsonObject).toList());
      case "gateway" -> session.send(response(what.getAsJsonObject()));
      case "gateway_bytes" -> session.send(parsed(HexFormat.of().parseHex(what.getAsString())));
      case "lost" -> end(Status.UNAVAILABLE, new Metadata());
      case "end" -> end(what.getAsJsonObject());
      case "outcome" -> outcome(what.getAsString());
      case "source", "sink" -> {
        if (what.getAsJsonObject().has("stop")) {
          connector.stop();
        } else {
          steps.take(what.getAsJsonObject());
        }
      }
      default -> {
        // What queries, operators and others do is seen only in what the gateway says.
      }
    }
  }

  private void outcome(String outcome) throws InterruptedException {
    switch (outcome) {
      case "ended" -> connector.join();
      case "failed" -> assertThrows(HeadraceException.class, connector::join);
      default -> session = calls.next();
    }
  }

  private void end(JsonObject how) throws InterruptedException {
    String status = how.get("status").getAsString();
    if (status.equals("OK")) {
      session.awaitEnd();
      session = null;
      return;
    }
    Metadata trailers = new Metadata();
    if (how.has("reason")) {
      ErrorInfo info =
          ErrorInfo.newBuilder()
              .setDomain("headrace")
              .setReason(how.get("reason").getAsString())
              .build();
      io.headrace.rpc.Status.Detail.Builder detail =
          io.headrace.rpc.Status.Detail.newBuilder()
              .setTypeUrl("type.googleapis.com/google.rpc.ErrorInfo")
              .setValue(info.toByteString());
      trailers.put(
          DETAILS, io.headrace.rpc.Status.newBuilder().addDetails(detail).build().toByteArray());
    }
    end(Status.fromCode(Status.Code.valueOf(status)), trailers);
  }

  private void end(Status status, Metadata trailers) {
    session.end(status, trailers);
    session = null;
  }

  /** Takes messages until all that are wanted have come, in any order. */
  private void expect(List<JsonObject> wanted) throws Exception {
    if (session == null) {
      session = calls.next();
    }
    List<JsonObject> missing = new ArrayList<>(wanted.stream().map(JsonObject::deepCopy).toList());
    while (!missing.isEmpty()) {
      Q request = session.next();
      Map.Entry<String, JsonElement> said = fields(request).entrySet().iterator().next();
      String kind = said.getKey();
      boolean fits =
          missing.removeIf(
                  want -> want.has(kind) && labels.fit(kind, want.get(kind), said.getValue()))
              || (kind.equals("frame") && isBeginning(missing, said.getValue().getAsJsonObject()));
      if (!fits && !PASSED_OVER.contains(kind)) {
        throw new AssertionError(
            "the connector says " + said + ", and the script wants " + missing);
      }
    }
  }

  /** Takes the first messages of a frame that the connector has split. */
  private boolean isBeginning(List<JsonObject> missing, JsonObject got) {
    int count = got.getAsJsonArray("sequences").size();
    for (JsonObject want : missing) {
      if (!want.has("frame")) {
        continue;
      }
      JsonObject columns = want.getAsJsonObject("frame");
      if (count >= columns.getAsJsonArray("sequences").size()) {
        continue;
      }
      JsonObject first = Frames.part(columns, 0, count);
      first.remove("cursor"); // it belongs to the last message
      if (labels.fit("frame", first, got)) {
        int all = columns.getAsJsonArray("sequences").size();
        want.add("frame", Frames.part(columns, count, all));
        return true;
      }
    }
    return false;
  }

  /** The connector's messages, by its kind, as scripts write it. */
  private JsonObject fields(Q request) throws InvalidProtocolBufferException {
    if (request instanceof IngestRequest ingest && ingest.hasFrame()) {
      JsonObject frame = new JsonObject();
      frame.add("frame", Frames.columns(ingest.getFrame()));
      return frame;
    }
    return JsonParser.parseString(
            JsonFormat.printer()
                .preservingProtoFieldNames()
                .includingDefaultValueFields()
                .print(request))
        .getAsJsonObject();
  }

  private R response(JsonObject said) throws InvalidProtocolBufferException {
    JsonObject message = labels.resolved(said).getAsJsonObject();
    if (message.has("frame")) {
      return parsed(Frames.ofSink(message.getAsJsonObject("frame")).toByteArray());
    }
    Message.Builder builder = response.newBuilderForType();
    JsonFormat.parser().merge(message.toString(), builder);
    return parsed(builder.build().toByteArray());
  }

  @SuppressWarnings("unchecked") // the parser of a message parses messages of its type
  private R parsed(byte[] bytes) throws InvalidProtocolBufferException {
    return (R) response.getParserForType().parseFrom(bytes);
  }
}
