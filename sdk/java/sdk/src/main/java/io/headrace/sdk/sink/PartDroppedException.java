package io.headrace.sdk.sink;

/** Thrown by {@link RowStream} if its part was dropped: its result is no longer needed. */
public final class PartDroppedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Says so. */
  public PartDroppedException() {
    super("the part was dropped");
  }
}
