package io.headrace.sdk.internal.log;

import io.headrace.sdk.InvalidConnectorException;
import java.io.UnsupportedEncodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.logging.ConsoleHandler;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/**
 * Configures the JDK's own logging as the environment says, unless the program has done so. Other
 * systems of logging have their own configuration.
 */
public final class LogOutput {
  private static final String FORMAT = "HEADRACE_LOG_FORMAT";
  private static final String VERBOSE = "HEADRACE_VERBOSE";
  private static final List<String> OFF = List.of("", "0", "false", "no", "off");

  /** They hold levels: the JDK forgets a logger that nothing refers to. */
  private static final Logger ROOT = Logger.getLogger("");

  private static final Logger OURS = Logger.getLogger("io.headrace.sdk");

  private LogOutput() {}

  /**
   * Configures logging.
   *
   * @param environment the variables of the process
   * @throws InvalidConnectorException if HEADRACE_LOG_FORMAT names a format that does not exist
   */
  public static void configure(Map<String, String> environment) {
    String format = environment.getOrDefault(FORMAT, "");
    String verbose = environment.getOrDefault(VERBOSE, "");
    if (format.isEmpty()) {
      if (verbose.equals("0")) {
        OURS.setLevel(Level.WARNING);
      }
      return;
    }
    if (!format.equals("json") && !format.equals("console")) {
      throw new InvalidConnectorException(
          "%s: \"%s\" is not console or json".formatted(FORMAT, format));
    }
    if (System.getProperty("java.util.logging.config.file") != null
        || System.getProperty("java.util.logging.config.class") != null
        || ROOT.getHandlers().length != 1
        || !(ROOT.getHandlers()[0] instanceof ConsoleHandler handler)
        || handler.getFormatter().getClass() != SimpleFormatter.class) {
      return;
    }
    handler.setFormatter(new Lines(format.equals("json")));
    try {
      handler.setEncoding(StandardCharsets.UTF_8.name());
    } catch (UnsupportedEncodingException error) {
      throw new IllegalStateException("every Java knows UTF-8", error);
    }
    boolean isQuiet = OFF.contains(verbose.strip().toLowerCase(Locale.ROOT));
    ROOT.setLevel(isQuiet ? Level.WARNING : Level.INFO);
  }

  /** Whether standard error is for lines of JSON only. */
  public static boolean writesJson() {
    for (Handler handler : ROOT.getHandlers()) {
      if (handler.getFormatter() instanceof Lines lines && lines.json()) {
        return true;
      }
    }
    return false;
  }
}
