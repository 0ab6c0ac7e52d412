package io.headrace.sdk.sessions;

import static io.headrace.sdk.Vectors.each;
import static io.headrace.sdk.Vectors.read;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.sdk.Connector;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.Settings;
import java.io.IOException;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.ThrowingConsumer;

/** Sessions that a gateway plays from the scripts that all SDKs share. */
@Timeout(120)
class SessionsTest {
  @TestFactory
  Stream<DynamicTest> sources() throws IOException {
    return scripts("source.json", SessionsTest::playSource);
  }

  private static void playSource(JsonObject script) throws Exception {
    ScriptedSource source = new ScriptedSource(script.getAsJsonObject("source"));
    try (FakeGateway gateway = new FakeGateway()) {
      Connector connector = Connector.start(source.source(), settings(gateway, script));
      Play.Steps steps =
          step -> {
            if (step.has("append")) {
              source.append(step.getAsJsonObject("append"));
            } else {
              source.awaitSettled(texts(step.get("settled")));
            }
          };
      new Play<>(gateway::source, IngestResponse.getDefaultInstance(), connector, steps)
          .run(script.getAsJsonArray("steps"));
      stop(connector, script);
    }
  }

  @TestFactory
  Stream<DynamicTest> sinks() throws IOException {
    return scripts("sink.json", SessionsTest::playSink);
  }

  private static void playSink(JsonObject script) throws Exception {
    ScriptedSink sink = ScriptedSink.of(script.getAsJsonObject("sink"));
    try (FakeGateway gateway = new FakeGateway()) {
      Connector connector = Connector.start(sink.sink(), settings(gateway, script));
      Play.Steps steps =
          step -> assertEquals(texts(step.get("visible")), List.copyOf(sink.visible().get()));
      new Play<>(gateway::sink, SinkServiceAttachResponse.getDefaultInstance(), connector, steps)
          .run(script.getAsJsonArray("steps"));
      stop(connector, script);
    }
  }

  private static Stream<DynamicTest> scripts(String file, ThrowingConsumer<JsonObject> play)
      throws IOException {
    return each(read("sessions/" + file).getAsJsonArray("scripts"))
        .filter(script -> texts(script.get("plays")).contains("connector"))
        .map(
            script ->
                DynamicTest.dynamicTest(
                    script.get("name").getAsString(), () -> play.accept(script)));
  }

  private static Settings settings(FakeGateway gateway, JsonObject script) {
    Settings.Builder settings = gateway.settings().toBuilder().instance("instance-0");
    if (script.has("token")) {
      settings.token(script.get("token").getAsString());
    }
    return settings.build();
  }

  private static List<String> texts(JsonElement list) {
    return list.getAsJsonArray().asList().stream()
        .map(entry -> entry.isJsonNull() ? "null" : entry.getAsString())
        .toList();
  }

  /** Stops a connector, which has not failed unless its script wants that. */
  private static void stop(Connector connector, JsonObject script) throws InterruptedException {
    boolean failed =
        each(script.getAsJsonArray("steps"))
            .anyMatch(
                step -> step.has("outcome") && step.get("outcome").getAsString().equals("failed"));
    connector.stop();
    if (failed) {
      assertThrows(HeadraceException.class, connector::join);
    } else {
      connector.join();
    }
  }
}
