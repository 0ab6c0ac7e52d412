package headrace.engine;

import java.io.IOException;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Returns its argument, and starts the service of the checkpoint's files in the JVM that evaluates it: a stage that evaluates it has
 * the service for its Python workers, wherever it runs.
 *
 * Compiled in the JVM by Janino, which does not know the arguments of generic types.
 */
public class ServingFiles implements UDF1 {
    /** The driver, which creates this, has the keys of an object store in its environment, for example; executors need not. */
    private final Broadcast configuration = SerializableConfiguration.broadcast(SparkContext.getOrCreate());

    /** The same integers as in a column. */
    public static Column column(Column integers) {
        return functions.udf(new ServingFiles(), DataTypes.IntegerType).apply(new Column[] {integers});
    }

    public Object call(Object value) throws IOException {
        CheckpointFiles.serve(this.configuration);
        return value;
    }
}
