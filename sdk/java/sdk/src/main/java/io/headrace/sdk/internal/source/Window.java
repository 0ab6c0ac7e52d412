package io.headrace.sdk.internal.source;

/** The credit of a session: what it may send, and about how much the gateway has granted in all. */
final class Window {
  private final long frameOverhead;
  private long bytes;
  private long messages;
  private long outstandingBytes;
  private long outstandingMessages;

  Window(long bytes, long messages, long frameOverhead) {
    this.bytes = bytes;
    this.messages = messages;
    this.frameOverhead = frameOverhead;
  }

  void grant(long moreBytes, long moreMessages) {
    add(moreBytes, moreMessages);
    outstandingBytes = Math.max(0, outstandingBytes - moreBytes);
    outstandingMessages = Math.max(0, outstandingMessages - moreMessages);
  }

  /** Takes over credit that was for one stream. */
  void add(long moreBytes, long moreMessages) {
    bytes += moreBytes;
    messages += moreMessages;
  }

  void spend(long frameBytes, long frameMessages) {
    bytes -= frameBytes + frameOverhead;
    messages -= frameMessages;
    outstandingBytes += frameBytes + frameOverhead;
    outstandingMessages += frameMessages;
  }

  /** The size of a frame that the credit allows. */
  long frameBytes() {
    return bytes - frameOverhead;
  }

  long frameMessages() {
    return messages;
  }

  /** The size of frames of which several fit into the whole window. */
  long shareOfBytes() {
    return (bytes + outstandingBytes) / 4 - frameOverhead;
  }

  long shareOfMessages() {
    return Math.max(1, (messages + outstandingMessages) / 4);
  }

  /** Everything that was sent is acknowledged: nothing is outstanding. */
  void settle() {
    outstandingBytes = 0;
    outstandingMessages = 0;
  }
}
