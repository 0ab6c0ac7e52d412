package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.SinkServiceAttachResponse;

/** Handles the gateway's messages to a sink of one mode, and answers them. */
interface SinkHandler {
  /** Whether another message can be taken. */
  boolean hasRoom();

  /** Takes a message; never waits for the sink. */
  void take(SinkServiceAttachResponse message);

  /** Handles and answers what has arrived completely; no more messages are taken. */
  void finish();

  /** Whether everything that had arrived is answered. */
  boolean isFinished();

  /** Drops the rest: what is not handled yet will not be. */
  void drop();

  /** Waits until no method of the sink runs for this session; false if that takes longer. */
  boolean awaitClosed(long nanos) throws InterruptedException;
}
