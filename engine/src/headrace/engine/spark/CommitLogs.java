package headrace.engine;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import org.apache.hadoop.fs.Path;

/**
 * Tells the driver's Python process of entries in commit logs as soon as they are written; Spark's own event follows later.
 *
 * Compiled in the JVM by Janino, which knows neither lambdas nor the arguments of generic types.
 */
public class CommitLogs {
    private static final Map LISTENERS = new ConcurrentHashMap();
    // The query's thread goes on with its next micro-batch meanwhile.
    private static final ExecutorService CALLS = Executors.newSingleThreadExecutor(new Daemons());

    /** Is called with the number of each micro-batch that is in the commit log. */
    public interface Listener {
        void committed(long batch);
    }

    public static void add(String checkpoint, Listener listener) {
        LISTENERS.put(new Path(checkpoint, "commits"), listener);
    }

    public static void remove(String checkpoint) {
        LISTENERS.remove(new Path(checkpoint, "commits"));
    }

    /** A file of a checkpoint is complete. */
    static void written(Path path) {
        Listener listener = (Listener) LISTENERS.get(path.getParent());
        if (listener != null && path.getName().matches("[0-9]{1,18}")) {
            CALLS.execute(new Call(listener, Long.parseLong(path.getName())));
        }
    }

    public static class Call implements Runnable {
        private final Listener listener;
        private final long batch;

        public Call(Listener listener, long batch) {
            this.listener = listener;
            this.batch = batch;
        }

        public void run() {
            try {
                this.listener.committed(this.batch);
            } catch (RuntimeException ended) {
                // The Python process ends. It reads the commit log once more before that.
                return;
            }
        }
    }

    public static class Daemons implements ThreadFactory {
        public Thread newThread(Runnable call) {
            Thread thread = new Thread(call, "headrace-commits");
            thread.setDaemon(true);
            return thread;
        }
    }
}
