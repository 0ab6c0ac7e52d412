package io.headrace.kafkaconnect.sink;

/** A clock that only sleeping moves. */
final class ManualClock implements Clock {
  private long now;

  @Override
  public long nanos() {
    return now;
  }

  @Override
  public void sleep(long nanos) {
    now += Math.max(0, nanos);
  }
}
