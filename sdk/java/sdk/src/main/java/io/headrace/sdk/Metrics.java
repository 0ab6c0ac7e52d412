package io.headrace.sdk;

/**
 * Receives what a connector counts, to pass it to a metrics library. Methods are called once for a
 * frame or a batch, never for a single message, on threads of the SDK: they must return quickly and
 * not throw. Each does nothing by default.
 */
public interface Metrics {
  /** Counts nothing. */
  Metrics NONE = new Metrics() {};

  /**
   * A session with the gateway was established.
   *
   * @param session the id of the session
   */
  default void connected(String session) {}

  /**
   * The connection to the gateway failed or broke, and is tried again.
   *
   * @param error why
   */
  default void reconnecting(SessionEndedException error) {}

  /**
   * A source sent a frame.
   *
   * @param stream the name of the stream
   * @param messages the number of messages in it
   * @param bytes its size
   */
  default void frameSent(String stream, int messages, int bytes) {}

  /**
   * Messages of a source are in the checkpoint of every query that reads the stream.
   *
   * @param stream the name of the stream
   * @param position everything at or before it
   */
  default void acknowledged(String stream, Position position) {}

  /**
   * A frame waits for credit: the gateway holds as much of this connector as it may.
   *
   * @param stream the name of the stream
   */
  default void waitingForCredit(String stream) {}

  /**
   * A sink received a frame.
   *
   * @param sink the name of the sink
   * @param messages the number of messages in it
   * @param bytes its size
   */
  default void frameReceived(String sink, int messages, int bytes) {}

  /**
   * A sink staged a part.
   *
   * @param sink the name of the sink
   * @param messages the number of messages that were staged
   * @param refused the number of messages that it refused
   */
  default void partStaged(String sink, long messages, long refused) {}

  /**
   * A transaction is visible in a sink.
   *
   * @param sink the name of the sink
   */
  default void committed(String sink) {}
}
