package headrace.engine;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.collection.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Takes the shuffles out of the plan of a micro-batch that one task reads: that task then runs all of it, in one stage.
 *
 * Concerns only plans with nothing but a stream of Headrace's at their end.
 *
 * Compiled in the JVM by Janino, which knows neither lambdas nor the arguments of generic types.
 */
public class NoShuffle extends Rule {
    public TreeNode apply(TreeNode plan) {
        return isShuffled((LogicalPlan) plan) && isReadByOneTask((LogicalPlan) plan) ? without((LogicalPlan) plan) : plan;
    }

    private static boolean isShuffled(LogicalPlan plan) {
        if (plan instanceof RepartitionByExpression) {
            return true;
        }
        Seq children = plan.children();
        return children.size() == 1 && isShuffled((LogicalPlan) children.apply(0));
    }

    private static boolean isReadByOneTask(LogicalPlan plan) {
        Seq leaves = plan.collectLeaves();
        if (leaves.size() != 1 || !(leaves.apply(0) instanceof StreamingDataSourceV2ScanRelation)) {
            return false;
        }
        StreamingDataSourceV2ScanRelation scan = (StreamingDataSourceV2ScanRelation) leaves.apply(0);
        if (!scan.name().equals("headrace") || scan.startOffset().isEmpty() || scan.endOffset().isEmpty()) {
            return false;
        }
        MicroBatchStream stream = (MicroBatchStream) scan.stream();
        return stream.planInputPartitions((Offset) scan.startOffset().get(), (Offset) scan.endOffset().get()).length <= 1;
    }

    private static LogicalPlan without(LogicalPlan plan) {
        if (plan instanceof RepartitionByExpression) {
            return without((LogicalPlan) ((RepartitionByExpression) plan).child());
        }
        return (LogicalPlan) plan.mapChildren(new Without());
    }

    public static class Without extends AbstractFunction1 {
        public Object apply(Object child) {
            return without((LogicalPlan) child);
        }
    }
}
