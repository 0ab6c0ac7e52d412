package io.headrace.kafkaconnect;

import io.headrace.sdk.Connector;
import io.headrace.sdk.Settings;
import java.util.concurrent.ThreadLocalRandom;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.kafka.common.config.ConfigException;

/** Runs, checks or describes a source connector of Kafka Connect, without Kafka. */
public final class Bridge {
  private static final int INVALID = 2;
  private static final Logger LOG = Logger.getLogger("");

  private Bridge() {}

  /**
   * The program of the manifests.
   *
   * @param arguments what to do: {@code run}, {@code check} or {@code describe}; and the preset, if
   *     it is for one
   */
  public static void main(String[] arguments) {
    System.exit(code(arguments));
  }

  private static int code(String[] arguments) {
    String verb = arguments.length > 0 ? arguments[0] : "";
    String parameters = System.getenv(Parameters.VARIABLE);
    if (parameters == null || !verb.matches("run|check|describe")) {
      System.err.println(
          "Error: use headrace connector run kafka-connect, and check; describe prints the properties of the connector");
      return INVALID;
    }
    if (!verb.equals("run")) {
      // What is wrong is said in one line.
      LOG.setLevel(Level.OFF);
    }
    try {
      Parameters given = Parameters.of(parameters);
      Options options = arguments.length > 1 ? Options.of(arguments[1], given) : Options.of(given);
      switch (verb) {
        case "run" -> {
          return run(options);
        }
        case "check" -> System.out.println(Validation.checked(options));
        default -> Validation.described(options).forEach(System.out::println);
      }
      return 0;
    } catch (ConfigException error) {
      System.err.println("Error: " + error.getMessage());
      return INVALID;
    } catch (Exception error) {
      System.err.println("Error: " + error);
      return 1;
    }
  }

  private static int run(Options options) {
    RecordLog log =
        new RecordLog(
            options.replay(),
            options.memory(),
            options.completeAfter().toNanos(),
            System::nanoTime,
            ThreadLocalRandom.current()::nextLong);
    Host host = new Host(options, log, System::nanoTime, Host.STOP_MILLIS);
    BridgeSource source = new BridgeSource(options, log, options.badRecords(), host);
    return Connector.run(source, Settings.fromEnvironment());
  }
}
