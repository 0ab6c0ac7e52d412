package io.headrace.sdk.internal.sink;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** The rows of a part: the first ones in memory, the others in a temporary file. */
final class HeldRows {
  private final AtomicLong memory;
  private final long limit;
  private final List<FrameRows> first = new ArrayList<>();
  private final List<FrameFile.Place> places = new ArrayList<>();
  private final FrameFile file = new FrameFile();
  private long bytes;

  /**
   * Holds nothing yet.
   *
   * @param memory what all parts together have in memory, in bytes
   * @param limit how much that may be
   */
  HeldRows(AtomicLong memory, long limit) {
    this.memory = memory;
    this.limit = limit;
  }

  void add(FrameRows rows) throws IOException {
    int size = rows.frame().getSerializedSize();
    if (places.isEmpty() && memory.get() + size <= limit) {
      first.add(rows);
      bytes += size;
      memory.addAndGet(size);
    } else {
      places.add(file.write(rows.frame()));
    }
  }

  /** The number of pieces, in memory and in the file. */
  int size() {
    return first.size() + places.size();
  }

  /** A piece; reads it from the file if it is there. */
  FrameRows get(int index) throws IOException {
    return index < first.size()
        ? new FrameRows(first.get(index).frame())
        : new FrameRows(file.read(places.get(index - first.size())));
  }

  void release() {
    memory.addAndGet(-bytes);
    bytes = 0;
    first.clear();
    places.clear();
    file.close();
  }
}
