package io.headrace.sdk.source;

import io.headrace.sdk.Reporter;
import java.time.Duration;
import java.util.List;

/**
 * What every source declares. Implement {@link ReplayableSource} for a log, a file or a table,
 * {@link RedeliveringSource} for a queue, and {@link ResumableSource} for a change feed, and run it
 * with {@link io.headrace.sdk.Connector#run(Source)}.
 *
 * <p>A partition is one stream, named {@code name/partition}. Everything that concerns a partition
 * is called on one thread and never at the same time, so a client library that is not thread-safe
 * needs no lock. Different partitions have different threads. The methods of the source itself are
 * called on a thread of their own, {@code open} on its partition's thread.
 */
public sealed interface Source permits ReplayableSource, RedeliveringSource, ResumableSource {
  /**
   * The source part of the names of its streams: ASCII letters, digits and {@code ._-}.
   *
   * @return the name, always the same
   */
  String name();

  /**
   * The connector's name, shown with its sessions.
   *
   * @return by default, the name of the source
   */
  default String connector() {
    return name();
  }

  /**
   * The connector's version, shown with its sessions.
   *
   * @return by default, {@code 0}
   */
  default String version() {
    return "0";
  }

  /**
   * Lists the partitions that exist now. It is called when a session begins and every few seconds
   * from then on, so partitions may appear while the connector runs. A partition that is no longer
   * listed is read until it ends. When every partition has ended, everything is acknowledged and no
   * further partition is listed, the connector ends.
   *
   * @return names of ASCII letters, digits and {@code ._-}; by default one, {@code 0}
   * @throws Exception if they cannot be listed; this ends the connector
   */
  default List<String> partitions() throws Exception {
    return List.of("0");
  }

  /**
   * Whether there may be more partitions than a session may have streams. They then take turns: a
   * partition gets its stream when another one returns {@link Progress#END} or {@link
   * Progress#CLOSE}.
   *
   * @return by default false: too many partitions end the connector
   */
  default boolean takesTurns() {
    return false;
  }

  /**
   * How long the SDK waits after {@link Progress#IDLE} before it reads again. An acknowledgement
   * ends the wait early.
   *
   * @return by default 10 ms
   */
  default Duration idleWait() {
    return Duration.ofMillis(10);
  }

  /**
   * Receives what the source may report its own state to, for {@code headrace status}: that it
   * waits for its system, for instance. Called once, when the connector is started; keep it in a
   * field if you need it.
   *
   * @param reporter takes the state, at any time and on any thread
   */
  default void reportTo(Reporter reporter) {}

  /**
   * Releases what the source holds, such as connections. Called once, when the connector ends,
   * after every other method has returned and every reader is closed: also after an error, and also
   * if the gateway was never reached. If another method does not return within {@link
   * io.headrace.sdk.Settings#closeTimeout()}, this one is not called; if this one does not, its
   * thread is interrupted, and the connector ends without it.
   *
   * @throws Exception if it fails; this is logged
   */
  default void close() throws Exception {}
}
