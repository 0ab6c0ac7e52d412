package io.headrace.sdk;

/**
 * Takes what a source or sink says of its own state, for {@code headrace status}; changes nothing
 * else. A source gets it in {@link io.headrace.sdk.source.Source#reportTo}, a sink in {@link
 * io.headrace.sdk.sink.Sink#reportTo}.
 *
 * <p>The SDK reports by itself that a connector runs, which sessions broke, and which streams or
 * transactions fail. Say more where your code knows better: that it waits for its system to come
 * back, or works only in part. Say {@link #running()} when that is over.
 *
 * <p>Methods may be called on any thread, at any time, as often as you like. They never wait. A
 * report survives sessions; the last one is sent, at most once a second. Of a text, at most 4,096
 * bytes are sent.
 */
public interface Reporter {
  /** It starts: it connects to its system. */
  void connecting();

  /** It works. This is so until something else is said. */
  void running();

  /**
   * It works, but not as it should. The error is listed among the errors of the connector, too,
   * once until another state or error is said.
   *
   * @param error what is wrong, for people
   */
  void degraded(String error);

  /**
   * It can do nothing until its system is back.
   *
   * @param reason what it waits for, for people
   */
  void waiting(String reason);
}
