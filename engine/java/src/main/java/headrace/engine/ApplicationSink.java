package headrace.engine;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The sink of an application's query. Its tasks have already delivered their results: what arrives
 * here is what each task reports.
 *
 * <p>Before the tasks of a micro-batch start, the driver's Python process says which states they
 * continue from. After the last one has ended, and before Spark writes the commit log, it receives
 * all reports. A Python writer would cost two processes' work for that.
 */
public final class ApplicationSink implements TableProvider {
  private static final String RUN_NUMBER = "spark.sql.headrace.run";
  private static final String BATCH = "streaming.sql.batchId";
  private static final String STATES = "headrace.states";
  private static final String STOPPED = "stopped";
  private static final Map<String, Handler> HANDLERS = new ConcurrentHashMap<>();

  /** The query's handler in the driver's Python process. */
  public interface Handler {
    /**
     * The states that a micro-batch of a run continues from; what is wrong, after "!", if it cannot
     * begin.
     */
    String begin(String run, String batch);

    /**
     * Receives the reports of all tasks, each after its length in bytes; returns what is wrong,
     * "stopped" if the query was stopped meanwhile, or null.
     */
    String commit(long batch, byte[] reports);

    /** The micro-batch has failed. */
    void abort(long batch);
  }

  /** Has a handler receive what the tasks of a run report. */
  public static void register(String run, Handler handler) {
    HANDLERS.put(run, handler);
  }

  /** Ends a run: what it still reports fails. */
  public static void remove(String run) {
    HANDLERS.remove(run);
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Target(schema, properties.containsKey("sink") ? "headrace" : "nothing");
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  private record Target(StructType type, String name) implements SupportsWrite {
    @Override
    public Column[] columns() {
      return Stream.of(type.fields())
          .map(each -> Column.create(each.name(), each.dataType(), each.nullable()))
          .toArray(Column[]::new);
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.STREAMING_WRITE);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new MicroBatches(info.options().get("run"));
    }
  }

  /** The writer of all micro-batches of a run. */
  public record MicroBatches(String run) implements WriteBuilder, Write, StreamingWrite {
    @Override
    public Write build() {
      return this;
    }

    @Override
    public StreamingWrite toStreaming() {
      return this;
    }

    @Override
    public boolean useCommitCoordinator() {
      return false;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      // Spark passes the local properties of this thread to the tasks that it starts next.
      SparkContext context = SparkContext.getOrCreate();
      String number = context.getLocalProperty(RUN_NUMBER);
      String states = handler().begin(number, context.getLocalProperty(BATCH));
      if (states.startsWith("!")) {
        throw new IllegalStateException(states.substring(1));
      }
      context.setLocalProperty(STATES, states);
      return new Tasks();
    }

    @Override
    public void commit(long batch, WriterCommitMessage[] messages) {
      String wrong = handler().commit(batch, joined(messages));
      if (STOPPED.equals(wrong)) {
        throw new UncheckedIOException(new InterruptedIOException("the query was stopped"));
      }
      if (wrong != null) {
        throw new IllegalStateException(wrong);
      }
    }

    @Override
    public void abort(long batch, WriterCommitMessage[] messages) {
      handler().abort(batch);
    }

    private Handler handler() {
      Handler found = HANDLERS.get(run);
      if (found == null) {
        throw new IllegalStateException(
            "run " + run + " of this application is over; start the application again");
      }
      return found;
    }

    private static byte[] joined(WriterCommitMessage[] messages) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (DataOutputStream out = new DataOutputStream(bytes)) {
        for (WriterCommitMessage message : messages) {
          // Null for a task that Spark has skipped.
          if (message instanceof Reports task) {
            for (byte[] report : task.reports) {
              out.writeInt(report.length);
              out.write(report);
            }
          }
        }
      } catch (IOException impossible) {
        throw new IllegalStateException(impossible);
      }
      return bytes.toByteArray();
    }
  }

  private record Tasks() implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
      return new Reports();
    }
  }

  /** What one task reports: the blocks of the rows with the target REPORT. */
  private static final class Reports implements DataWriter<InternalRow>, WriterCommitMessage {
    private static final int REPORT = Integer.MIN_VALUE;
    private static final int TARGET = 1;
    private static final int BLOCK = 6;

    private final List<byte[]> reports = new ArrayList<>();

    @Override
    public void write(InternalRow row) {
      if (row.getInt(TARGET) == REPORT) {
        reports.add(row.getBinary(BLOCK));
      }
    }

    @Override
    public WriterCommitMessage commit() {
      return this;
    }

    @Override
    public void abort() {}

    @Override
    public void close() {}
  }
}
