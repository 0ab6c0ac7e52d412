package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Reporter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Shows what the bridge says of itself, and when a slot is a problem. */
final class HealthTest {
  private static final PluginPath BRIDGE = PluginPath.of(List.of());
  private static final long MAX_WAL = 1_000_000_000;

  private final List<String> reports = new ArrayList<>();
  private final Health health = new Health(Secrets.NONE);

  HealthTest() {
    health.reportTo(
        new Reporter() {
          @Override
          public void connecting() {}

          @Override
          public void running() {
            reports.add("running");
          }

          @Override
          public void degraded(String error) {
            reports.add("degraded: " + error);
          }

          @Override
          public void waiting(String reason) {
            reports.add("waiting: " + reason);
          }
        });
  }

  @Test
  void aTaskThatGetsOnDoesNotHideAProblemOfTheDatabase() {
    health.problems(List.of("the slot is large"));
    health.waits("task 0 failed");
    health.waits("");
    health.waits("");
    health.problems(List.of());
    health.problems(List.of());
    assertEquals(
        List.of(
            "degraded: the slot is large",
            "waiting: task 0 failed; the slot is large",
            "degraded: the slot is large",
            "running"),
        reports);
  }

  @Test
  void passwordsAreMaskedInBoth() {
    health.problems(List.of("at jdbc:x://u:hidden@h"));
    health.waits("password=hidden");
    assertTrue(reports.stream().noneMatch(text -> text.contains("hidden")), reports::toString);
  }

  private static List<String> slot(String status, long safe, long kept) {
    Map<String, String> properties =
        Map.of(
            "connector.class", "io.debezium.connector.postgresql.PostgresConnector",
            "slot.name", "headrace_shop");
    return new PostgresqlDatabase(ConnectorFile.of(properties, BRIDGE), BRIDGE, MAX_WAL)
        .problems(status, safe, kept);
  }

  @Test
  void aSlotIsAProblemBeforeTheDiskIsFullAndBeforeItIsLost() {
    assertEquals(List.of(), slot("reserved", Long.MAX_VALUE, 5_000));
    assertEquals(List.of(), slot("extended", 700_000_000, 300_000_000));
    List<String> full = slot("extended", Long.MAX_VALUE, 2_340_000_000L);
    assertEquals(1, full.size());
    assertTrue(full.get(0).contains("headrace_shop keeps 2.3 GB"), full::toString);
    List<String> soon = slot("extended", 300_000_000, 700_000_000);
    assertTrue(soon.get(0).contains("lost after 300.0 MB more"), soon::toString);
    assertEquals(2, slot("unreserved", -5, 2_000_000_000).size());
    List<String> lost = slot("lost", 0, 2_000_000_000);
    assertEquals(1, lost.size());
    assertTrue(lost.get(0).contains("as a new source"), lost::toString);
  }
}
