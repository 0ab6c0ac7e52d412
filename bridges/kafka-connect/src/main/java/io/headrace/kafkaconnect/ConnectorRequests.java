package io.headrace.kafkaconnect;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectorContext;

/** What a connector asks of its host, until it ends. */
public class ConnectorRequests implements ConnectorContext {
  private final AtomicBoolean reconfigure;
  private final AtomicReference<Exception> raised;
  private final PluginMetrics metrics;

  /** A thread of a connector may outlive it, and does not speak for the next one. */
  private volatile boolean over;

  /**
   * The requests of a connector.
   *
   * @param reconfigure set once the connector wants other tasks
   * @param raised the first error that it raises
   */
  protected ConnectorRequests(
      AtomicBoolean reconfigure, AtomicReference<Exception> raised, PluginMetrics metrics) {
    this.reconfigure = reconfigure;
    this.raised = raised;
    this.metrics = metrics;
  }

  /** Ignores what the connector requests from now on. */
  public final void end() {
    over = true;
  }

  @Override
  public final void requestTaskReconfiguration() {
    if (!over) {
      reconfigure.set(true);
    }
  }

  @Override
  public final void raiseError(Exception error) {
    if (!over) {
      raised.compareAndSet(null, error);
    }
  }

  @Override
  public final PluginMetrics pluginMetrics() {
    return metrics;
  }
}
