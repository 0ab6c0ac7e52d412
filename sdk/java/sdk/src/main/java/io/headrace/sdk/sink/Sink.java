package io.headrace.sdk.sink;

import io.headrace.sdk.Reporter;

/**
 * What every sink declares. Implement the mode that the system can do, and run it with {@link
 * io.headrace.sdk.Connector#run(Sink)}:
 *
 * <ul>
 *   <li>{@link AtLeastOnceSink}: it can write.
 *   <li>{@link IdempotentSink}: it can write many rows and an id in one atomic step. Exactly once,
 *       if a batch that runs again has the same rows.
 *   <li>{@link TwoPhaseSink}: it can store rows durably without showing them, and show them later.
 *       Exactly once.
 * </ul>
 *
 * <p>Methods may block: Spark then waits. An exception is reported to the gateway as a failure, of
 * which nothing counts as written: Spark tries again, or fails. The connector continues.
 */
public sealed interface Sink permits AtLeastOnceSink, IdempotentSink, TwoPhaseSink {
  /**
   * Its name in Spark, as in {@code df.writeStream.format("headrace").option("sink", name)}: ASCII
   * letters, digits and {@code ._-}.
   *
   * @return the name, always the same
   */
  String name();

  /**
   * The connector's name, shown with its sessions.
   *
   * @return by default, the name of the sink
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
   * Receives what the sink may report its own state to, for {@code headrace status}: that it waits
   * for its system, for instance. Called once, when the connector is started; keep it in a field if
   * you need it.
   *
   * @param reporter takes the state, at any time and on any thread
   */
  default void reportTo(Reporter reporter) {}

  /**
   * Releases what the sink holds, such as connections. Called once, when the connector ends, after
   * every other method has returned: also after an error, and even if the gateway was never
   * reached. If another method does not return within {@link
   * io.headrace.sdk.Settings#closeTimeout()}, this one is not called; if this one does not, its
   * thread is interrupted, and the connector ends without it.
   *
   * @throws Exception if it fails; this is logged
   */
  default void close() throws Exception {}
}
