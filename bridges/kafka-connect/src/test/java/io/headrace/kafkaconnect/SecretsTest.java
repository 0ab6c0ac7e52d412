package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.logging.StreamHandler;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Shows that no text contains a secret of the configuration, whatever exception quotes it. */
final class SecretsTest {
  private static final PluginPath BRIDGE = PluginPath.of(List.of());
  private static final String BY_DEFINITION = "pa$$-by-definition";
  private static final String BY_NAME = "by-name";
  private static final String RESOLVED = "resolved-by-a-provider";

  @TempDir private Path folder;

  /** A connector whose property has the type of passwords, and no name of one. */
  public static final class Locked extends SourceConnector {
    @Override
    public ConfigDef config() {
      return new ConfigDef()
          .define("lock", ConfigDef.Type.PASSWORD, ConfigDef.Importance.HIGH, "the lock");
    }

    @Override
    public void start(Map<String, String> properties) {}

    @Override
    public Class<? extends Task> taskClass() {
      return Task.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
      return List.of();
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
      return "1";
    }
  }

  private Secrets secrets() throws Exception {
    Path given = Files.write(folder.resolve("given"), List.of("url=" + RESOLVED));
    Map<String, String> properties = new HashMap<>();
    properties.put("connector.class", Locked.class.getName());
    properties.put("lock", BY_DEFINITION);
    properties.put("transforms.a.api.key", BY_NAME);
    properties.put("connection.url", "jdbc:${file:" + given + ":url}");
    properties.put("table", "orders");
    return Secrets.of(ConnectorFile.of(properties, BRIDGE), BRIDGE);
  }

  private static void assertHidden(String text) {
    for (String secret : List.of(BY_DEFINITION, BY_NAME, RESOLVED)) {
      assertFalse(text.contains(secret), text);
    }
  }

  private static Exception failure() {
    Exception cause = new IllegalStateException("no access to jdbc:" + RESOLVED);
    Exception error = new RuntimeException("table orders: " + BY_DEFINITION, cause);
    error.addSuppressed(new RuntimeException("with " + BY_NAME));
    return error;
  }

  @Test
  void noTextShowsThem() throws Exception {
    String text = secrets().masked("orders " + BY_DEFINITION + BY_NAME + RESOLVED);
    assertHidden(text);
    assertTrue(text.startsWith("orders *"), text);
  }

  @Test
  void noExceptionShowsThemNorAnyCauseOfIt() throws Exception {
    Secrets secrets = secrets();
    Throwable masked =
        assertThrows(
            Exception.class,
            () ->
                secrets.within(
                    () -> {
                      throw failure();
                    }));
    StringWriter whole = new StringWriter();
    masked.printStackTrace(new PrintWriter(whole));
    assertHidden(whole.toString());
    assertTrue(masked.getMessage().contains("table orders"), masked.getMessage());
    assertEquals("failure", masked.getStackTrace()[0].getMethodName());
    Exception harmless = new Exception("table orders");
    assertSame(harmless, secrets.masked(harmless));
  }

  @Test
  void noLogShowsThemWhoeverWritesIt() throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    StreamHandler handler = new StreamHandler(out, new SimpleFormatter());
    Logger logger = Logger.getAnonymousLogger();
    logger.setUseParentHandlers(false);
    logger.addHandler(handler);
    secrets().mask(logger);
    logger.log(Level.WARNING, "connecting to orders with " + BY_DEFINITION, failure());
    handler.flush();
    String text = out.toString(StandardCharsets.UTF_8);
    assertHidden(text);
    assertTrue(text.contains("connecting to orders"), text);
  }

  @Test
  void passwordsInUrlsAreHiddenWhereverTheyComeFrom() throws Exception {
    for (String url :
        List.of(
            "jdbc:postgresql://db:5432/shop?user=me&password=s3cr%20et&ssl=true",
            "jdbc:sqlserver://db:1433;user=me;password={s3cr%20et};encrypt=true",
            "jdbc:mysql://address=(host=db)(user=me)(password=s3cr%20et)/shop",
            "jdbc:oracle:thin:me/s3cr%20et@//db:1521/shop",
            "amqp://me:s3cr%20et@queue:5672/",
            "https://me:s3cr%20et@files/a?x=1",
            "https://s3cr%20et@files/a?token=s3cr%20et")) {
      assertFalse(Secrets.NONE.masked("cannot open " + url + " now").contains("s3cr"), url);
      Map<String, String> properties = new HashMap<>();
      properties.put("connector.class", Locked.class.getName());
      properties.put("connection.url", url);
      Secrets secrets = Secrets.of(ConnectorFile.of(properties, BRIDGE), BRIDGE);
      String text = secrets.masked("user me: s3cr%20et is wrong, s3cr et too; at " + url);
      assertTrue(text.startsWith("user me: ****"), text);
      assertFalse(text.contains("s3cr"), text);
    }
    String plain = "jdbc:postgresql://db:5432/shop?user=me at 10:15, see https://host/a@b";
    assertEquals(plain, Secrets.NONE.masked(plain));
  }
}
