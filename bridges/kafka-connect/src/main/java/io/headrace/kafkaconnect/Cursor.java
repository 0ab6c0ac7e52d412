package io.headrace.kafkaconnect;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;

/**
 * Where a connector resumes. Written as JSON, as Connect writes offsets to its topic, and
 * compressed only if that is longer than a cursor may be.
 *
 * @param sequence the last message that the offsets cover
 * @param run which run of the bridge has counted {@code order}
 * @param order the last record that they cover, also of records that were not sent
 * @param exact whether the record that follows the offsets is always the message that follows
 *     {@code sequence}
 * @param barrier whether {@code sequence} is the first message behind which all is the same again
 * @param offsets the offsets
 */
record Cursor(
    long sequence, long run, long order, boolean exact, boolean barrier, Offsets offsets) {
  /**
   * How long a cursor may be.
   *
   * @param most its bytes, at most
   * @param forget whether it may leave out the oldest source partitions if there are too many
   */
  record Limits(int most, boolean forget) {}

  /** Where a connector begins that was never read. */
  static final Cursor NONE = new Cursor(0, 0, 0, false, false, new Offsets());

  /** As bytes, compressed if they are more than a number. */
  byte[] encoded(int most) {
    List<Object> pairs = new ArrayList<>();
    offsets.values().forEach(one -> pairs.add(List.of(one.partition(), one.offset())));
    Map<String, Object> whole = new LinkedHashMap<>();
    whole.put("n", sequence);
    whole.put("run", run);
    whole.put("o", order);
    whole.put("exact", exact);
    whole.put("barrier", barrier);
    whole.put("offsets", pairs);
    byte[] json = Offsets.json(whole);
    return json.length <= most ? json : deflated(json);
  }

  /** As bytes, without the oldest partitions if there is no room for all and that is allowed. */
  byte[] fitted(Limits limits) {
    int most = limits.most();
    byte[] whole = encoded(most);
    if (whole.length <= most) {
      return whole;
    }
    int fits = 0;
    int many = limits.forget() ? offsets.size() : 1;
    while (many - fits > 1) {
      int middle = (fits + many) / 2;
      if (withNewest(middle).encoded(most).length <= most) {
        fits = middle;
      } else {
        many = middle;
      }
    }
    if (fits == 0) {
      throw new IllegalStateException(
          ("the offsets have %d bytes (source partitions: %d), and a cursor holds %d: give the connector fewer tables"
                  + " or files, run a second one for the others, or set forget_partitions")
              .formatted(whole.length, offsets.size(), most));
    }
    return withNewest(fits).encoded(most);
  }

  private Cursor withNewest(int partitions) {
    return new Cursor(sequence, run, order, exact, barrier, offsets.newest(partitions));
  }

  @SuppressWarnings("unchecked")
  static Cursor decoded(byte[] bytes) {
    byte[] json = bytes.length > 0 && bytes[0] == '{' ? bytes : inflated(bytes);
    Map<String, Object> whole = (Map<String, Object>) Offsets.parsed(json);
    Offsets offsets = new Offsets();
    for (Object pair : (List<Object>) whole.get("offsets")) {
      List<Object> two = (List<Object>) pair;
      Map<String, Object> partition = (Map<String, Object>) two.get(0);
      offsets.put(Offsets.key(partition), partition, (Map<String, Object>) two.get(1));
    }
    return new Cursor(
        (Long) whole.get("n"),
        (Long) whole.get("run"),
        (Long) whole.get("o"),
        (Boolean) whole.get("exact"),
        (Boolean) whole.get("barrier"),
        offsets);
  }

  static Cursor of(Optional<byte[]> bytes) {
    return bytes.map(Cursor::decoded).orElse(NONE);
  }

  private static byte[] deflated(byte[] bytes) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (DeflaterOutputStream deflater = new DeflaterOutputStream(out)) {
      deflater.write(bytes);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return out.toByteArray();
  }

  private static byte[] inflated(byte[] bytes) {
    try (InflaterInputStream in = new InflaterInputStream(new ByteArrayInputStream(bytes))) {
      return in.readAllBytes();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
