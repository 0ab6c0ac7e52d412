package io.headrace.sdk.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.sdk.Connector;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.SourceGateway;
import io.headrace.sdk.Vectors;
import io.headrace.sdk.source.Numbers;
import io.headrace.sdk.source.Progress;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(600)
class TokenFileTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Duration LONG = Duration.ofMinutes(10);

  @TempDir Path folder;

  @TestFactory
  Stream<DynamicTest> aFileContainsOneTokenOrAnErrorNamesWhatIsWrong() throws IOException {
    JsonObject vectors = Vectors.read("tokens.json");
    Path file = folder.resolve("token");
    return Vectors.each(vectors.getAsJsonObject("contents").getAsJsonArray("cases"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    vector.get("name").getAsString(),
                    () -> {
                      var content = new ByteArrayOutputStream();
                      for (int at = 0; at < times(vector, "times"); at++) {
                        content.writeBytes(Vectors.bytes(vector.get("hex")));
                      }
                      Files.write(file, content.toByteArray());
                      if (vector.has("token")) {
                        String token = vector.get("token").getAsString();
                        assertEquals(
                            token.repeat(times(vector, "token_times")), TokenFile.read(file, LONG));
                      } else {
                        assertRefused(file, file + " " + vector.get("problem").getAsString());
                      }
                    }));
  }

  private static int times(JsonObject vector, String name) {
    return Optional.ofNullable(vector.get(name)).map(JsonElement::getAsInt).orElse(1);
  }

  private static void assertRefused(Path file, String message) {
    IOException error = assertThrows(IOException.class, () -> TokenFile.read(file, LONG));
    assertEquals(message, error.getMessage());
  }

  @TestFactory
  Stream<DynamicTest> aPathLeadsToAFile() throws IOException {
    Files.createDirectory(folder.resolve("folder"));
    return Vectors.each(
            Vectors.read("tokens.json").getAsJsonObject("paths").getAsJsonArray("cases"))
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    vector.get("name").getAsString(),
                    () -> {
                      Path path =
                          vector.has("path")
                              ? Path.of(vector.get("path").getAsString())
                              : folder.resolve(vector.get("is").getAsString());
                      try (ServerSocketChannel server =
                          ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
                        if (path.endsWith("socket")) {
                          server.bind(UnixDomainSocketAddress.of(path));
                        }
                        assertRefused(path, path + ": " + vector.get("problem").getAsString());
                      }
                    }));
  }

  @Test
  void aFifoIsWaitedForWithAnEndAndReadOnce() throws Exception {
    Path never = fifo("never");
    IOException error = assertThrows(IOException.class, () -> TokenFile.read(never, Duration.ZERO));
    assertEquals(
        never + ": nobody has written a token to it and closed it in time", error.getMessage());
    Files.writeString(never, "too late"); // The thread that waits for it ends.
    Path late = fifo("late");
    FutureTask<Path> writing = new FutureTask<>(() -> Files.writeString(late, "late\n"));
    new Thread(writing).start();
    assertEquals("late", TokenFile.read(late, LONG));
    writing.get();
    assertEquals("late", TokenFile.read(late, Duration.ZERO));
  }

  private Path fifo(String name) throws Exception {
    Path path = folder.resolve(name);
    assertEquals(0, new ProcessBuilder("mkfifo", path.toString()).start().waitFor());
    return path;
  }

  @Test
  void aFileThatContainsNoTokenChangesNothing() throws IOException {
    Path path = Files.writeString(folder.resolve("token"), "first\n");
    TokenFile file = new TokenFile("tokenFile", path);
    for (String content : new String[] {"", "a\nb"}) {
      Files.writeString(path, content);
      assertFalse(file.refresh());
      assertEquals("first", file.token());
    }
    Files.writeString(path, "second");
    assertTrue(file.refresh());
    assertEquals("second", file.token());
  }

  @Test
  void aReplacedTokenIsUsedByTheNextSession() throws Exception {
    Path path = Files.writeString(folder.resolve("token"), "first\n");
    try (FakeGateway gateway = new FakeGateway()) {
      Settings settings = gateway.settings().toBuilder().tokenFile(path).build();
      Connector connector = Connector.start(new Numbers(0, Progress.IDLE, "0"), settings);
      String[][] steps = {{"first", "second\n"}, {"second", ""}, {"second", "third\n"}};
      for (String[] step : steps) {
        SourceGateway session = SourceGateway.welcome(gateway);
        assertEquals("Bearer " + step[0], session.session().headers().get(AUTHORIZATION));
        Files.writeString(path, step[1]);
        session.end(step == steps[2] ? Status.UNAUTHENTICATED : Status.UNAVAILABLE);
      }
      SourceGateway session = SourceGateway.welcome(gateway);
      assertEquals("Bearer third", session.session().headers().get(AUTHORIZATION));
      session.end(Status.UNAUTHENTICATED);
      assertThrows(GatewayRefusedException.class, connector::join);
    }
  }

  @Test
  void aFileThatContainsNoTokenAtFirstIsNamed() {
    Settings settings = Settings.builder().tokenFile(folder.resolve("absent")).build();
    InvalidConnectorException error =
        assertThrows(
            InvalidConnectorException.class,
            () -> Connector.start(new Numbers(0, Progress.END, "0"), settings));
    assertTrue(error.getMessage().endsWith("absent: there is no such file"), error.getMessage());
  }
}
