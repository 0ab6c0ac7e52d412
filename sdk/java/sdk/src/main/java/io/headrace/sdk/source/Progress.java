package io.headrace.sdk.source;

/** How a reader continues. */
public enum Progress {
  /** There may be more: read again immediately. */
  MORE,
  /** There is nothing now: read again after {@link Source#idleWait()}. */
  IDLE,
  /**
   * The partition has ended and will never have more: windows of an application no longer wait for
   * it.
   */
  END,
  /**
   * The partition has nothing now, and gives up its stream. It is opened again when it is
   * acknowledged and still listed. For sources that take turns ({@link Source#takesTurns()}).
   */
  CLOSE,
  /**
   * The partition has ended and will never be listed again, because what it was read from was
   * removed. Once every query has committed all of it, it is forgotten everywhere.
   */
  GONE
}
