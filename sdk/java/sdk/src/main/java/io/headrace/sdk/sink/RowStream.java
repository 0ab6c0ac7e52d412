package io.headrace.sdk.sink;

import java.util.Iterator;

/** The rows of a part or of a transaction, in order. They can be iterated over once. */
public interface RowStream extends Iterable<Rows> {
  /**
   * Returns the rows, as they arrive: the iterator waits for them.
   *
   * @return an iterator, which throws {@link PartDroppedException} if the part is dropped meanwhile
   * @throws IllegalStateException if it is called a second time
   */
  @Override
  Iterator<Rows> iterator();
}
