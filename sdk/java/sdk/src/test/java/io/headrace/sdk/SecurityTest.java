package io.headrace.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import io.headrace.sdk.source.Numbers;
import io.headrace.sdk.source.Progress;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class SecurityTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  @TempDir Path folder;

  @Test
  void mutualTlsAndATokenConnect() throws Exception {
    Certificates certificates = new Certificates(folder);
    try (FakeGateway gateway =
        new FakeGateway(
            TlsServerCredentials.newBuilder()
                .keyManager(certificates.chain().toFile(), certificates.key().toFile())
                .trustManager(certificates.chain().toFile())
                .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
                .build())) {
      Settings settings =
          gateway.settings().toBuilder()
              .token("secret")
              .tls(
                  Tls.trusting(certificates.chain())
                      .withCertificate(certificates.chain(), certificates.key())
                      .withServerName("localhost"))
              .build();
      assertFalse(settings.toString().contains("secret"));
      try (Connector connector = Connector.start(new Numbers(0, Progress.END, "0"), settings)) {
        SourceGateway session = SourceGateway.welcome(gateway);
        assertEquals("Bearer secret", session.session().headers().get(AUTHORIZATION));
        session.open();
        session.goodbye();
        connector.join();
      }
    }
  }

  @Test
  void aFileThatCannotBeReadIsNamed() {
    Settings settings = Settings.builder().tls(Tls.trusting(folder.resolve("missing.pem"))).build();
    Connector connector = Connector.start(new Numbers(0, Progress.END, "0"), settings);
    InvalidConnectorException error =
        assertThrows(InvalidConnectorException.class, connector::join);
    assertTrue(error.getMessage().contains("missing.pem"), error.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "-----BEGIN PRIVATE KEY-----\n"})
  void filesThatAreBeingReplacedAreWaitedFor(String replaced) throws Exception {
    Certificates certificates = new Certificates(folder);
    String key = Files.readString(certificates.key());
    var complaints = new LinkedBlockingQueue<String>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord entry) {
            complaints.add(new SimpleFormatter().formatMessage(entry));
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    java.util.logging.Logger logger = java.util.logging.Logger.getLogger("io.headrace.sdk");
    logger.addHandler(handler);
    try (FakeGateway gateway =
        new FakeGateway(
            TlsServerCredentials.create(
                certificates.chain().toFile(), certificates.key().toFile()))) {
      Settings settings =
          gateway.settings().toBuilder()
              .tls(
                  Tls.trusting(certificates.chain())
                      .withCertificate(certificates.chain(), certificates.key())
                      .withServerName("localhost"))
              .build();
      try (Connector connector = Connector.start(new Numbers(0, Progress.END, "0"), settings)) {
        SourceGateway session = SourceGateway.welcome(gateway);
        Files.writeString(certificates.key(), replaced);
        session.end(Status.UNAVAILABLE);
        String complaint = complaints.take();
        while (!complaint.contains("certificate file")) {
          complaint = complaints.take();
        }
        assertTrue(complaint.contains("trying again"), complaint);
        Files.writeString(certificates.key(), key);
        session = SourceGateway.welcome(gateway);
        session.open();
        session.goodbye();
        connector.join();
      }
    } finally {
      logger.removeHandler(handler);
    }
  }

  @Test
  void aCertificateNeedsItsKey() {
    assertThrows(
        InvalidConnectorException.class,
        () -> new Tls(Optional.empty(), Optional.of(folder), Optional.empty(), Optional.empty()));
  }

  @Test
  void theEnvironmentHasTheConnection() {
    Settings settings =
        Settings.of(
            Map.of(
                "HEADRACE_GATEWAY", "gateway:1",
                "HEADRACE_TOKEN", "secret",
                "HEADRACE_INSTANCE", "lines-1",
                "HEADRACE_TLS", "1",
                "HEADRACE_TLS_CA", "ca.pem",
                "HEADRACE_TLS_CERT", "cert.pem",
                "HEADRACE_TLS_KEY", "key.pem"));
    assertEquals("gateway:1", settings.gateway());
    assertEquals(Optional.of("secret"), settings.token());
    assertEquals(Optional.of("lines-1"), settings.instance());
    Tls tls = Tls.trusting(Path.of("ca.pem"));
    assertEquals(
        Optional.of(tls.withCertificate(Path.of("cert.pem"), Path.of("key.pem"))), settings.tls());
    assertEquals("other:2", settings.toBuilder().gateway("other:2").build().gateway());
  }

  @Test
  void aFileOfATokenPrecedesTheTokenAndOneReplacesTheOther() {
    Settings settings =
        Settings.of(Map.of("HEADRACE_TOKEN", "secret", "HEADRACE_TOKEN_FILE", "orders.token"));
    assertEquals(Optional.empty(), settings.token());
    assertEquals(Optional.of(Path.of("orders.token")), settings.tokenFile());
    settings = settings.toBuilder().token("other").build();
    assertEquals(Optional.of("other"), settings.token());
    assertEquals(Optional.empty(), settings.tokenFile());
  }

  @Test
  void aVariableThatIsEmptyIsNotSet() {
    Settings settings =
        Settings.of(
            Map.of(
                "HEADRACE_GATEWAY", "",
                "HEADRACE_TOKEN", "",
                "HEADRACE_TOKEN_FILE", "",
                "HEADRACE_INSTANCE", "",
                "HEADRACE_TLS", "",
                "HEADRACE_TLS_CA", ""));
    assertEquals(Settings.DEFAULT_GATEWAY, settings.gateway());
    assertEquals(Optional.empty(), settings.token());
    assertEquals(Optional.empty(), settings.tokenFile());
    assertEquals(Optional.empty(), settings.instance());
    assertEquals(Optional.empty(), settings.tls());
  }

  @Test
  void tlsNeedsNoFilesAndAFileImpliesIt() {
    assertEquals(Optional.of(Tls.ofSystem()), Settings.of(Map.of("HEADRACE_TLS", "1")).tls());
    assertEquals(Optional.empty(), Settings.of(Map.of("HEADRACE_TLS", "0")).tls());
    assertEquals(
        Optional.of(Tls.trusting(Path.of("ca.pem"))),
        Settings.of(Map.of("HEADRACE_TLS_CA", "ca.pem")).tls());
  }

  @Test
  void aVariableThatIsInvalidIsNamed() {
    for (Map<String, String> environment :
        List.of(Map.of("HEADRACE_TLS", "perhaps"), Map.of("HEADRACE_TLS_KEY", "key.pem"))) {
      InvalidConnectorException error =
          assertThrows(InvalidConnectorException.class, () -> Settings.of(environment));
      String name = environment.keySet().iterator().next();
      assertTrue(error.getMessage().contains(name), error.getMessage());
    }
  }

  /** A certificate that is its own authority, made by the keytool of the JDK. */
  private record Certificates(Path folder) {
    private Certificates {
      Path store = folder.resolve("store.p12");
      run(
          "-genkeypair -alias a -keyalg EC -dname CN=localhost -ext san=dns:localhost -ext"
              + " bc=ca:true -validity 2 -storetype PKCS12 -storepass changeit -keystore "
              + store);
      try {
        java.security.KeyStore keys = java.security.KeyStore.getInstance("PKCS12");
        try (var file = java.nio.file.Files.newInputStream(store)) {
          keys.load(file, "changeit".toCharArray());
        }
        write(folder.resolve("cert.pem"), "CERTIFICATE", keys.getCertificate("a").getEncoded());
        write(
            folder.resolve("key.pem"),
            "PRIVATE KEY",
            keys.getKey("a", "changeit".toCharArray()).getEncoded());
      } catch (java.security.GeneralSecurityException | IOException error) {
        throw new AssertionError(error);
      }
    }

    Path chain() {
      return folder.resolve("cert.pem");
    }

    Path key() {
      return folder.resolve("key.pem");
    }

    private static void write(Path path, String what, byte[] bytes) throws IOException {
      String body = java.util.Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
      java.nio.file.Files.writeString(
          path, "-----BEGIN %s-----\n%s\n-----END %s-----\n".formatted(what, body, what));
    }

    private static void run(String arguments) {
      try {
        Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
        java.util.List<String> command = new java.util.ArrayList<>();
        command.add(keytool.toString());
        command.addAll(java.util.List.of(arguments.split(" ", -1)));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output =
            new String(
                process.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
          throw new AssertionError(output);
        }
      } catch (IOException | InterruptedException error) {
        throw new AssertionError(error);
      }
    }
  }
}
