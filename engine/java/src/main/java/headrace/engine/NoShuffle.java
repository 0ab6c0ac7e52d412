package headrace.engine;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.collection.immutable.Seq;

/**
 * Takes the shuffles out of the plan of a micro-batch that one task reads: that task then runs all
 * of it, in one stage.
 *
 * <p>Concerns only plans with nothing but a stream of Headrace's at their end.
 */
public final class NoShuffle extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return isShuffled(plan) && isReadByOneTask(plan) ? withoutShuffles(plan) : plan;
  }

  private static boolean isShuffled(LogicalPlan plan) {
    if (plan instanceof RepartitionByExpression) {
      return true;
    }
    Seq<LogicalPlan> children = plan.children();
    return children.size() == 1 && isShuffled(children.apply(0));
  }

  private static boolean isReadByOneTask(LogicalPlan plan) {
    Seq<LogicalPlan> leaves = plan.collectLeaves();
    if (leaves.size() != 1
        || !(leaves.apply(0) instanceof StreamingDataSourceV2ScanRelation scan)) {
      return false;
    }
    if (!scan.name().equals("headrace")
        || scan.startOffset().isEmpty()
        || scan.endOffset().isEmpty()) {
      return false;
    }
    MicroBatchStream stream = (MicroBatchStream) scan.stream();
    return stream.planInputPartitions(scan.startOffset().get(), scan.endOffset().get()).length <= 1;
  }

  private static LogicalPlan withoutShuffles(LogicalPlan plan) {
    return plan instanceof RepartitionByExpression shuffle
        ? withoutShuffles(shuffle.child())
        : plan.mapChildren(NoShuffle::withoutShuffles);
  }
}
