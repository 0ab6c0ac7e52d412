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
 * Returns its argument, and starts the service of the checkpoint's files in the JVM that evaluates
 * it: a stage that evaluates it has the service for its Python workers, wherever it runs.
 */
public final class ServingFiles implements UDF1<Integer, Integer> {
  /**
   * The driver, which creates this, has the keys of an object store in its environment, for
   * example; executors need not.
   */
  private final Broadcast<SerializableConfiguration> configuration =
      SerializableConfiguration.broadcast(SparkContext.getOrCreate());

  /** The same integers as in a column. */
  public static Column column(Column integers) {
    return functions.udf(new ServingFiles(), DataTypes.IntegerType).apply(integers);
  }

  @Override
  public Integer call(Integer value) throws IOException {
    CheckpointFiles.serve(configuration);
    return value;
  }
}
