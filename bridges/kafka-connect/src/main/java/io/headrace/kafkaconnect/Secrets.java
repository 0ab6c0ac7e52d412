package io.headrace.kafkaconnect;

import io.headrace.sdk.source.PositionLostException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * The values of a configuration that no log, no health report and no error may show: of properties
 * that are passwords by their definition or their name, and whatever a config provider resolved. A
 * connector, or a library of it, writes any of them into the texts of its exceptions.
 */
public final class Secrets {
  /** Nothing is secret. */
  public static final Secrets NONE = new Secrets(List.of());

  private static final String MASK = "********";
  private static final Pattern NAMED =
      Pattern.compile(
          "(password|passwd|passphrase|secret|token|credentials?|api.?key|jaas.config|user.info)$");

  /** The password of a user in a URL, whatever else it contains. */
  private static final Pattern USER_INFO = Pattern.compile("://[^/?#\\s:@]*:([^/?#\\s]+)@");

  /** What precedes the host in a URL. */
  private static final Pattern USER = Pattern.compile("://[^/?#\\s@]+(:[^/?#\\s]*)?@");

  /** Oracle writes {@code jdbc:oracle:thin:user/password@host}. */
  private static final Pattern ORACLE = Pattern.compile("(jdbc:oracle:\\w+:[^/\\s@]+/)([^\\s@]+)");

  /** A parameter of a URL, or of a text with parameters, that is a password by its name. */
  private static final Pattern PARAMETER =
      Pattern.compile(
          "(?i)(\\w*(?:password|passwd|passphrase|pwd|secret|token|api_?key)\\s*=\\s*)(\\{[^}]*}|[^&;,)\\s\"']+)");

  private final List<String> values;

  private Secrets(Collection<String> values) {
    // A value may contain another one.
    this.values =
        values.stream()
            .filter(value -> !value.isBlank())
            .distinct()
            .sorted(Comparator.comparingInt(String::length).reversed())
            .toList();
  }

  /** The secrets of a configuration of a connector. */
  public static Secrets of(ConnectorFile file, PluginPath plugins) {
    Set<String> found = new TreeSet<>(file.resolved());
    Set<String> passwords = passwords(file, plugins);
    file.all()
        .forEach(
            (name, value) -> {
              found.addAll(inUrl(value));
              if (passwords.contains(name) || NAMED.matcher(name.toLowerCase(Locale.ROOT)).find()) {
                found.add(value);
              }
            });
    return new Secrets(found);
  }

  /** The properties that are passwords by the connector's definition. */
  private static Set<String> passwords(ConnectorFile file, PluginPath plugins) {
    Set<String> names = new TreeSet<>();
    String className = file.connectorClass();
    Connector made = plugins.make("connector.class", className, Connector.class);
    try {
      ConfigDef definition = Plugin.within(plugins.loaderOf(className), made::config);
      definition.configKeys().values().stream()
          .filter(key -> key.type == ConfigDef.Type.PASSWORD)
          .forEach(key -> names.add(key.name));
    } catch (Exception | LinkageError error) {
      // A connector without a definition: the names of its properties are what is left.
    }
    return names;
  }

  /** The passwords in a URL, as they are written and as they are meant. */
  private static Set<String> inUrl(String value) {
    Set<String> found = new TreeSet<>();
    if (value.contains("://") || value.startsWith("jdbc:")) {
      USER_INFO.matcher(value).results().forEach(match -> found.add(match.group(1)));
      ORACLE.matcher(value).results().forEach(match -> found.add(match.group(2)));
      PARAMETER
          .matcher(value)
          .results()
          .forEach(match -> found.add(match.group(2).replaceAll("^\\{|}$", "")));
    }
    found.stream().toList().forEach(one -> decoded(one).ifPresent(found::add));
    return found;
  }

  private static Optional<String> decoded(String value) {
    try {
      return Optional.of(URLDecoder.decode(value, StandardCharsets.UTF_8));
    } catch (IllegalArgumentException error) {
      return Optional.empty(); // it was not encoded
    }
  }

  /** A text without them, and without passwords in URLs, wherever these come from. */
  public String masked(String text) {
    if (text == null) {
      return null;
    }
    String masked = text;
    for (String value : values) {
      masked = masked.replace(value, MASK);
    }
    masked = USER.matcher(masked).replaceAll("://" + MASK + "@");
    masked = ORACLE.matcher(masked).replaceAll("$1" + MASK);
    return PARAMETER.matcher(masked).replaceAll("$1" + MASK);
  }

  /**
   * An exception without them: itself, or one with the text and the place of the first if it, or a
   * cause of it, shows one.
   */
  public Throwable masked(Throwable error) {
    StringWriter whole = new StringWriter();
    error.printStackTrace(new PrintWriter(whole));
    if (masked(whole.toString()).equals(whole.toString())) {
      return error;
    }
    ConnectException shown = new ConnectException(masked(error.toString()));
    shown.setStackTrace(error.getStackTrace());
    return shown;
  }

  /** Calls what may throw, without letting an exception show them. */
  public <T> T within(Callable<T> call) throws Exception {
    try {
      return call.call();
    } catch (PositionLostException error) {
      throw error;
    } catch (Exception error) {
      throw masked(error) instanceof ConnectException shown ? shown : error;
    }
  }

  /** Masks whatever the handlers of a logger write, whoever logs it. */
  public void mask(Logger logger) {
    for (Handler handler : logger.getHandlers()) {
      handler.setFormatter(new Masking(handler.getFormatter()));
    }
  }

  private final class Masking extends Formatter {
    private final Formatter formatter;

    Masking(Formatter formatter) {
      this.formatter = formatter;
    }

    @Override
    public String format(LogRecord record) {
      return masked(formatter.format(record));
    }
  }
}
