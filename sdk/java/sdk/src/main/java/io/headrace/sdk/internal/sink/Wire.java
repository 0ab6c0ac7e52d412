package io.headrace.sdk.internal.sink;

import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import java.util.List;

/** Parts and transactions, from and to the wire. */
final class Wire {
  private Wire() {}

  static Transaction transaction(io.headrace.protocol.v1.Transaction transaction) {
    return new Transaction(transaction.getPipeline(), transaction.getBatch());
  }

  static io.headrace.protocol.v1.Transaction transaction(Transaction transaction) {
    return io.headrace.protocol.v1.Transaction.newBuilder()
        .setPipeline(transaction.pipeline())
        .setBatch(transaction.batch())
        .build();
  }

  static Part part(io.headrace.protocol.v1.Part part) {
    return new Part(transaction(part.getTransaction()), part.getPartition(), part.getAttempt());
  }

  static io.headrace.protocol.v1.Part part(Part part) {
    return io.headrace.protocol.v1.Part.newBuilder()
        .setTransaction(transaction(part.transaction()))
        .setPartition(part.partition())
        .setAttempt(part.attempt())
        .build();
  }

  static List<Part> parts(List<io.headrace.protocol.v1.Part> parts) {
    return parts.stream().map(Wire::part).toList();
  }
}
