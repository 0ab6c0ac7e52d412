package io.headrace.sdk.sink;

import io.headrace.sdk.Message;
import java.nio.ByteBuffer;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;

/**
 * Consecutive rows of a part. Iterate over them as messages, whose sequences are their places in
 * the part, counted from 0; or use columns, which creates no object for a row.
 */
public interface Rows extends Iterable<Message> {
  /**
   * The number of rows.
   *
   * @return at least 1
   */
  int size();

  /**
   * The row at an index.
   *
   * @param index the index, from 0
   * @return the row as a message
   */
  Message get(int index);

  @Override
  Iterator<Message> iterator();

  /**
   * The place of a row in its part.
   *
   * @param index the index, from 0
   * @return the place, counted from 0
   */
  long place(int index);

  /**
   * The value of a row, without copying it.
   *
   * @param index the index, from 0
   * @return the value, read-only; null if there is none
   */
  @Nullable ByteBuffer value(int index);

  /**
   * The key of a row, without copying it.
   *
   * @param index the index, from 0
   * @return the key, read-only; null if there is none
   */
  @Nullable ByteBuffer key(int index);

  /**
   * The values of all rows, joined, without copying them.
   *
   * @return the bytes, read-only
   */
  ByteBuffer values();
}
