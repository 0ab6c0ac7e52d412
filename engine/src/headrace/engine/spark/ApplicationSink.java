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
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
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
 * The sink of an application's query. Its tasks have already delivered their results: what arrives here is what each task reports.
 *
 * Before the tasks of a micro-batch start, the driver's Python process says which states they continue from. After the last one has
 * ended, and before Spark writes the commit log, it receives all reports. A Python writer would cost two processes' work for that.
 *
 * Compiled in the JVM by Janino, which knows neither lambdas nor the arguments of generic types.
 */
public class ApplicationSink implements TableProvider {
    private static final String RUN_NUMBER = "spark.sql.headrace.run";
    private static final String BATCH = "streaming.sql.batchId";
    private static final String STATES = "headrace.states";
    private static final String STOPPED = "stopped";
    private static final Map HANDLERS = new ConcurrentHashMap();

    /** The query's handler in the driver's Python process. */
    public interface Handler {
        /** The states that a micro-batch of a run continues from; what is wrong, after "!", if it cannot begin. */
        String begin(String run, String batch);

        /**
         * Receives the reports of all tasks, each after its length in bytes; returns what is wrong, "stopped" if the query was
         * stopped meanwhile, or null.
         */
        String commit(long batch, byte[] reports);

        void abort(long batch);
    }

    public static void register(String run, Handler handler) {
        HANDLERS.put(run, handler);
    }

    public static void remove(String run) {
        HANDLERS.remove(run);
    }

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new Target(schema, properties.containsKey("sink") ? "headrace" : "nothing");
    }

    public boolean supportsExternalMetadata() {
        return true;
    }

    public static class Target implements SupportsWrite {
        private final StructType schema;
        private final String name;

        public Target(StructType schema, String name) {
            this.schema = schema;
            this.name = name;
        }

        public String name() {
            return this.name;
        }

        public StructType schema() {
            return this.schema;
        }

        public Set capabilities() {
            return EnumSet.of(TableCapability.STREAMING_WRITE);
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return new MicroBatches(info.options().get("run"));
        }
    }

    /** The writer of all micro-batches of a run. */
    public static class MicroBatches implements WriteBuilder, Write, StreamingWrite {
        private final String run;

        public MicroBatches(String run) {
            this.run = run;
        }

        public Write build() {
            return this;
        }

        public StreamingWrite toStreaming() {
            return this;
        }

        public boolean useCommitCoordinator() {
            return false;
        }

        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            // Spark passes the local properties of this thread to the tasks that it starts next.
            SparkContext context = SparkContext.getOrCreate();
            String states = handler().begin(context.getLocalProperty(RUN_NUMBER), context.getLocalProperty(BATCH));
            if (states.startsWith("!")) {
                throw new IllegalStateException(states.substring(1));
            }
            context.setLocalProperty(STATES, states);
            return new Tasks();
        }

        public void commit(long batch, WriterCommitMessage[] messages) {
            String wrong = handler().commit(batch, joined(messages));
            if (STOPPED.equals(wrong)) {
                throw new UncheckedIOException(new InterruptedIOException("the query was stopped"));
            }
            if (wrong != null) {
                throw new IllegalStateException(wrong);
            }
        }

        public void abort(long batch, WriterCommitMessage[] messages) {
            handler().abort(batch);
        }

        private Handler handler() {
            Handler found = (Handler) HANDLERS.get(this.run);
            if (found == null) {
                throw new IllegalStateException("run " + this.run + " of this application is over; start the application again");
            }
            return found;
        }

        private static byte[] joined(WriterCommitMessage[] messages) {
            try {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                DataOutputStream out = new DataOutputStream(bytes);
                for (int task = 0; task < messages.length; task++) {
                    List reports = messages[task] == null ? new ArrayList() : ((Reports) messages[task]).reports;
                    for (int number = 0; number < reports.size(); number++) {
                        byte[] report = (byte[]) reports.get(number);
                        out.writeInt(report.length);
                        out.write(report);
                    }
                }
                return bytes.toByteArray();
            } catch (IOException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    public static class Tasks implements StreamingDataWriterFactory {
        public DataWriter createWriter(int partition, long task, long batch) {
            return new Reports();
        }
    }

    /** What one task reports: the blocks of the rows with the target REPORT. */
    public static class Reports implements DataWriter, WriterCommitMessage {
        private static final int REPORT = Integer.MIN_VALUE;
        private static final int TARGET = 1;
        private static final int BLOCK = 6;

        private final ArrayList reports = new ArrayList();

        public void write(Object row) {
            InternalRow found = (InternalRow) row;
            if (found.getInt(TARGET) == REPORT) {
                this.reports.add(found.getBinary(BLOCK));
            }
        }

        public WriterCommitMessage commit() {
            return this;
        }

        public void abort() {
        }

        public void close() {
        }
    }
}
