package io.headrace.sdk.source;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Header;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

final class TestBatchTest {
  private static final byte[] A = "a".getBytes(UTF_8);

  @Test
  void itKeepsWhatIsAdded() {
    TestBatch batch = new TestBatch(2);
    Instant time = Instant.ofEpochSecond(7);
    batch.add(3, A, null).eventTime(time).id("x").textHeader("h", "v");
    assertFalse(batch.isFull());
    batch.add(5, A);
    assertTrue(batch.isFull());
    batch.cursor(A);
    Message first = new Message(3, A, null, time, "x", List.of(Header.text("h", "v")));
    assertEquals(List.of(first, new Message(5, A)), batch.take());
    assertArrayEquals(A, batch.cursor().orElseThrow());
    assertTrue(batch.isEmpty());
    assertEquals(List.of(), batch.take());
    assertEquals(Optional.empty(), batch.cursor());
  }

  @Test
  void itKeepsACursorThatMovesAlone() {
    TestBatch batch = new TestBatch();
    batch.cursor(A);
    assertEquals(List.of(), batch.take());
    assertArrayEquals(A, batch.cursor().orElseThrow());
  }

  @Test
  void itChecksAsAGatewayDoes() {
    TestBatch batch = new TestBatch();
    batch.add(3, A);
    assertThrows(InvalidMessageException.class, () -> batch.add(3, A));
    assertThrows(InvalidMessageException.class, () -> batch.cursor(new byte[70_000]));
    batch.add(4, new byte[5 << 20]);
    assertThrows(InvalidMessageException.class, batch::take);
  }

  @Test
  void deliveriesKeepTheirTokens() {
    TestDeliveries<String> deliveries = new TestDeliveries<>(1);
    deliveries.add("tag 1", A).id("x");
    assertTrue(deliveries.isFull());
    deliveries.add("tag 2", A, null);
    assertEquals(
        List.of(new Message(1, null, A, null, "x", List.of()), new Message(2, A, null)),
        deliveries.take());
    assertEquals(List.of("tag 1", "tag 2"), deliveries.tokens());
    assertTrue(deliveries.isEmpty());
  }
}
