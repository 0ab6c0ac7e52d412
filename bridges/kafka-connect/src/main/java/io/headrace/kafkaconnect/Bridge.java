package io.headrace.kafkaconnect;

import io.headrace.kafkaconnect.sink.BridgeSink;
import io.headrace.kafkaconnect.sink.SinkOptions;
import io.headrace.kafkaconnect.sink.SinkValidation;
import io.headrace.sdk.Connector;
import io.headrace.sdk.Settings;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.kafka.common.config.ConfigException;

/** Runs, checks or describes a connector of Kafka Connect, without Kafka: a source or a sink. */
public final class Bridge {
  private static final int INVALID = 2;
  private static final Duration BETWEEN_LOOKS = Duration.ofSeconds(10);
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
    Secrets secrets = Secrets.NONE;
    try {
      Parameters given = Parameters.of(parameters);
      Program program = given.text("sink") != null ? sink(given) : source(arguments, given);
      secrets = program.secrets;
      secrets.mask(LOG);
      switch (verb) {
        case "run" -> {
          return program.run.call();
        }
        case "check" -> System.out.println(program.check.call());
        default -> program.describe.call().forEach(System.out::println);
      }
      return 0;
    } catch (ConfigException error) {
      System.err.println("Error: " + secrets.masked(error.getMessage()));
      return INVALID;
    } catch (Exception error) {
      System.err.println("Error: " + secrets.masked(error.toString()));
      return 1;
    }
  }

  /** What to do for each verb. */
  private record Program(
      Secrets secrets,
      Callable<Integer> run,
      Callable<String> check,
      Callable<List<String>> describe) {}

  private static Program source(String[] arguments, Parameters given) {
    Options options = arguments.length > 1 ? Options.of(arguments[1], given) : Options.of(given);
    new Declaration(options.file(), options.plugins()).requireSource();
    return new Program(
        options.secrets(),
        () -> run(options),
        () -> Validation.checked(options),
        () -> Validation.described(options));
  }

  private static Program sink(Parameters given) {
    SinkOptions options = SinkOptions.of(given);
    new Declaration(options.file(), options.plugins()).requireSink();
    return new Program(
        options.secrets(),
        () -> Connector.run(new BridgeSink(options), Settings.fromEnvironment()),
        () -> SinkValidation.checked(options),
        () -> SinkValidation.described(options));
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
    options
        .database()
        .ifPresent(database -> new Watch(database, host.health(), BETWEEN_LOOKS).start());
    return Connector.run(source, Settings.fromEnvironment());
  }
}
