package io.headrace.sdk;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ThreadFactory;

/**
 * How a connector connects and runs. Make it with {@link #builder()}.
 *
 * @param gateway the address of the gateway, {@code host:port}
 * @param token the token by which the connector authenticates
 * @param tokenFile a file that contains the token, and nothing else but white space around it, such
 *     as {@code /dev/fd/3}; it is read again before each session, so that a token can be replaced
 * @param tls transport security; empty connects without encryption
 * @param instance which deployment of the connector this is, the same after each restart: a newer
 *     session of an instance takes over from the older one. Empty: the name of the source or sink
 * @param metrics receives what the connector counts
 * @param linger how long to gather messages for a frame, until the gateway sets another pace
 * @param frameBytes the size at which a frame is sent without waiting for more messages
 * @param frameMessages the number of messages at which it is
 * @param drain how long a connector that is stopped waits for acknowledgements, or for its sink
 * @param partitionPoll how often the source is asked for its partitions
 * @param welcome how long to wait for the answer of a gateway before trying again
 * @param firstBackoff the longest wait before the first reconnect; it doubles with each further one
 * @param maxBackoff the longest wait before any reconnect
 * @param stuck after how long a method that does not return is reported, with where it stands, and
 *     again after twice the time, and so on; a connector that is stopped abandons it then
 * @param closeTimeout how long to wait, at the end, for methods that still run and then for {@code
 *     close()}, together
 * @param queueBytes how many bytes may wait for a sink (for each part of a two-phase sink) before
 *     the SDK stops reading from the gateway
 * @param holdBytes how many bytes of unfinished transactions to keep in memory for a
 *     batch-idempotent sink; the rest goes to a temporary file
 * @param threads creates the threads of the connector, such as {@code Thread.ofVirtual().factory()}
 */
public record Settings(
    String gateway,
    Optional<String> token,
    Optional<Path> tokenFile,
    Optional<Tls> tls,
    Optional<String> instance,
    Metrics metrics,
    Duration linger,
    int frameBytes,
    int frameMessages,
    Duration drain,
    Duration partitionPoll,
    Duration welcome,
    Duration firstBackoff,
    Duration maxBackoff,
    Duration stuck,
    Duration closeTimeout,
    int queueBytes,
    int holdBytes,
    ThreadFactory threads) {

  /** Where a gateway listens by default. */
  public static final String DEFAULT_GATEWAY = "127.0.0.1:7433";

  /**
   * The settings of the environment, as {@code headrace connector run} gives them to a program. A
   * variable that is empty counts as not set.
   *
   * <ul>
   *   <li>{@code HEADRACE_GATEWAY}: the address of the gateway, by default {@value
   *       #DEFAULT_GATEWAY}
   *   <li>{@code HEADRACE_TOKEN}: the token
   *   <li>{@code HEADRACE_TOKEN_FILE}: a file that contains the token, which precedes {@code
   *       HEADRACE_TOKEN}
   *   <li>{@code HEADRACE_INSTANCE}: which deployment of the connector this is
   *   <li>{@code HEADRACE_TLS}: {@code 1} for TLS; the files below imply it
   *   <li>{@code HEADRACE_TLS_CA}, {@code HEADRACE_TLS_CERT}, {@code HEADRACE_TLS_KEY}: the files
   *       of {@link Tls}
   * </ul>
   *
   * @return the settings
   * @throws InvalidConnectorException if a variable is invalid
   */
  public static Settings fromEnvironment() {
    return of(System.getenv());
  }

  static Settings of(Map<String, String> environment) {
    Builder builder = new Builder();
    variable(environment, "HEADRACE_GATEWAY").ifPresent(builder::gateway);
    variable(environment, "HEADRACE_TOKEN").ifPresent(builder::token);
    variable(environment, "HEADRACE_TOKEN_FILE").map(Path::of).ifPresent(builder::tokenFile);
    variable(environment, "HEADRACE_INSTANCE").ifPresent(builder::instance);
    Optional<Path> ca = variable(environment, "HEADRACE_TLS_CA").map(Path::of);
    Optional<Path> certificate = variable(environment, "HEADRACE_TLS_CERT").map(Path::of);
    Optional<Path> key = variable(environment, "HEADRACE_TLS_KEY").map(Path::of);
    if (certificate.isPresent() != key.isPresent()) {
      throw new InvalidConnectorException(
          "HEADRACE_TLS_CERT and HEADRACE_TLS_KEY: set both, or neither");
    }
    if (isOn(environment, "HEADRACE_TLS") || ca.isPresent() || certificate.isPresent()) {
      builder.tls(new Tls(ca, certificate, key, Optional.empty()));
    }
    return builder.build();
  }

  private static Optional<String> variable(Map<String, String> environment, String name) {
    return Optional.ofNullable(environment.get(name)).filter(value -> !value.isEmpty());
  }

  private static boolean isOn(Map<String, String> environment, String name) {
    String value = variable(environment, name).orElse("0");
    return switch (value.toLowerCase(Locale.ROOT)) {
      case "1", "true", "yes", "on" -> true;
      case "0", "false", "no", "off" -> false;
      default -> throw new InvalidConnectorException("%s=%s: want 1 or 0".formatted(name, value));
    };
  }

  /**
   * A builder that begins with the settings of the environment; what is set explicitly wins.
   *
   * @return the builder
   * @throws InvalidConnectorException if a variable is invalid
   */
  public static Builder builder() {
    return fromEnvironment().toBuilder();
  }

  /**
   * A builder that begins with these settings.
   *
   * @return the builder
   */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.gateway = gateway;
    builder.token = token;
    builder.tokenFile = tokenFile;
    builder.tls = tls;
    builder.instance = instance;
    builder.metrics = metrics;
    builder.linger = linger;
    builder.frameBytes = frameBytes;
    builder.frameMessages = frameMessages;
    builder.drain = drain;
    builder.partitionPoll = partitionPoll;
    builder.welcome = welcome;
    builder.firstBackoff = firstBackoff;
    builder.maxBackoff = maxBackoff;
    builder.stuck = stuck;
    builder.closeTimeout = closeTimeout;
    builder.queueBytes = queueBytes;
    builder.holdBytes = holdBytes;
    builder.threads = threads;
    return builder;
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  @Override
  public String toString() {
    return "Settings[gateway=%s, token=%s, tokenFile=%s, tls=%s, instance=%s]"
        .formatted(gateway, token.isPresent() ? "***" : "none", tokenFile, tls, instance);
  }

  /** What names the token file: the variable, where the file is the one of the environment. */
  String tokenFileName() {
    String variable = System.getenv("HEADRACE_TOKEN_FILE");
    boolean isOfEnvironment =
        variable != null && tokenFile.map(Path::toString).equals(Optional.of(variable));
    return isOfEnvironment ? "HEADRACE_TOKEN_FILE" : "tokenFile";
  }

  /** Builds settings. */
  public static final class Builder {
    private String gateway = DEFAULT_GATEWAY;
    private Optional<String> token = Optional.empty();
    private Optional<Path> tokenFile = Optional.empty();
    private Optional<Tls> tls = Optional.empty();
    private Optional<String> instance = Optional.empty();
    private Metrics metrics = Metrics.NONE;
    private Duration linger = Duration.ofMillis(5);
    private int frameBytes = 256 * 1024;
    private int frameMessages = 8192;
    private Duration drain = Duration.ofSeconds(10);
    private Duration partitionPoll = Duration.ofSeconds(3);
    private Duration welcome = Duration.ofSeconds(10);
    private Duration firstBackoff = Duration.ofMillis(50);
    private Duration maxBackoff = Duration.ofSeconds(2);
    private Duration stuck = Duration.ofSeconds(10);
    private Duration closeTimeout = Duration.ofSeconds(10);
    private int queueBytes = 8 << 20;
    private int holdBytes = 64 << 20;
    private ThreadFactory threads = Settings::daemon;

    private Builder() {}

    /**
     * Sets the address of the gateway.
     *
     * @param value the address of the gateway, {@code host:port}
     * @return this
     */
    public Builder gateway(String value) {
      this.gateway = Objects.requireNonNull(value, "gateway");
      return this;
    }

    /**
     * Sets the token by which the connector authenticates, instead of a file.
     *
     * @param value the token by which the connector authenticates
     * @return this
     */
    public Builder token(String value) {
      this.token = Optional.of(value);
      this.tokenFile = Optional.empty();
      return this;
    }

    /**
     * Sets the file that contains the token, instead of the token itself.
     *
     * @param value a file that contains the token; it is read again before each session
     * @return this
     */
    public Builder tokenFile(Path value) {
      this.tokenFile = Optional.of(value);
      this.token = Optional.empty();
      return this;
    }

    /**
     * Sets transport security.
     *
     * @param value transport security
     * @return this
     */
    public Builder tls(Tls value) {
      this.tls = Optional.of(value);
      return this;
    }

    /**
     * Sets which deployment of the connector this is.
     *
     * @param value which deployment of the connector this is, the same after each restart: a newer
     *     session of an instance takes over from the older one.
     * @return this
     */
    public Builder instance(String value) {
      this.instance = Optional.of(value);
      return this;
    }

    /**
     * Sets what receives the counts of the connector.
     *
     * @param value receives what the connector counts
     * @return this
     */
    public Builder metrics(Metrics value) {
      this.metrics = Objects.requireNonNull(value, "metrics");
      return this;
    }

    /**
     * Sets how long to gather messages for a frame.
     *
     * @param value how long to gather messages for a frame, until the gateway sets another pace
     * @return this
     */
    public Builder linger(Duration value) {
      this.linger = Objects.requireNonNull(value, "linger");
      return this;
    }

    /**
     * Sets the size at which a frame is sent without waiting for more messages.
     *
     * @param value the size at which a frame is sent without waiting for more messages
     * @return this
     */
    public Builder frameBytes(int value) {
      this.frameBytes = value;
      return this;
    }

    /**
     * Sets the number of messages at which a frame is sent without waiting for more.
     *
     * @param value the number of messages at which it is
     * @return this
     */
    public Builder frameMessages(int value) {
      this.frameMessages = value;
      return this;
    }

    /**
     * Sets how long a connector that is stopped waits for acknowledgements.
     *
     * @param value how long a connector that is stopped waits for acknowledgements, or for its sink
     * @return this
     */
    public Builder drain(Duration value) {
      this.drain = Objects.requireNonNull(value, "drain");
      return this;
    }

    /**
     * Sets how often the source is asked for its partitions.
     *
     * @param value how often the source is asked for its partitions
     * @return this
     */
    public Builder partitionPoll(Duration value) {
      this.partitionPoll = Objects.requireNonNull(value, "partitionPoll");
      return this;
    }

    /**
     * Sets how long to wait for the answer of a gateway before trying again.
     *
     * @param value how long to wait for the answer of a gateway before trying again
     * @return this
     */
    public Builder welcome(Duration value) {
      this.welcome = Objects.requireNonNull(value, "welcome");
      return this;
    }

    /**
     * Sets the longest wait before the first reconnect.
     *
     * @param value the longest wait before the first reconnect; it doubles with each further one
     * @return this
     */
    public Builder firstBackoff(Duration value) {
      this.firstBackoff = Objects.requireNonNull(value, "firstBackoff");
      return this;
    }

    /**
     * Sets the longest wait before any reconnect.
     *
     * @param value the longest wait before any reconnect
     * @return this
     */
    public Builder maxBackoff(Duration value) {
      this.maxBackoff = Objects.requireNonNull(value, "maxBackoff");
      return this;
    }

    /**
     * Sets after how long a method that does not return is reported.
     *
     * @param value after how long a method that does not return is reported; a connector that is
     *     stopped abandons it then
     * @return this
     */
    public Builder stuck(Duration value) {
      this.stuck = Objects.requireNonNull(value, "stuck");
      return this;
    }

    /**
     * Sets how long to wait, at the end, for methods that still run and then for {@code close()},
     * together.
     *
     * @param value by default 10 s
     * @return this
     */
    public Builder closeTimeout(Duration value) {
      this.closeTimeout = Objects.requireNonNull(value, "closeTimeout");
      return this;
    }

    /**
     * Sets how many bytes may wait for a sink.
     *
     * @param value how many bytes may wait for a sink (for each part of a two-phase sink) before
     *     the SDK stops reading from the gateway
     * @return this
     */
    public Builder queueBytes(int value) {
      this.queueBytes = value;
      return this;
    }

    /**
     * Sets how many bytes of unfinished transactions to keep in memory for a batch-idempotent sink.
     *
     * @param value how many bytes of unfinished transactions to keep in memory for a
     *     batch-idempotent sink; the rest goes to a temporary file
     * @return this
     */
    public Builder holdBytes(int value) {
      this.holdBytes = value;
      return this;
    }

    /**
     * Sets what creates the threads of the connector.
     *
     * @param value creates the threads of the connector, such as {@code
     *     Thread.ofVirtual().factory()}
     * @return this
     */
    public Builder threads(ThreadFactory value) {
      this.threads = Objects.requireNonNull(value, "threads");
      return this;
    }

    /**
     * Builds the settings.
     *
     * @return the settings
     * @throws InvalidConnectorException if a value is not allowed
     */
    public Settings build() {
      if (frameBytes < 1 || frameMessages < 1 || queueBytes < 1 || holdBytes < 0) {
        throw new InvalidConnectorException(
            "frameBytes, frameMessages and queueBytes must be at least 1, holdBytes at least 0");
      }
      return new Settings(
          gateway,
          token,
          tokenFile,
          tls,
          instance,
          metrics,
          linger,
          frameBytes,
          frameMessages,
          drain,
          partitionPoll,
          welcome,
          firstBackoff,
          maxBackoff,
          stuck,
          closeTimeout,
          queueBytes,
          holdBytes,
          threads);
    }
  }
}
