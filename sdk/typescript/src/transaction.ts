/** What one micro-batch of one query writes to one sink. */
export interface Transaction {
  /** The id of the query, which its checkpoint keeps. */
  readonly pipeline: string;
  /** The micro-batch, counted from 0. */
  readonly batch: bigint;
}

/** The rows that one Spark task writes. */
export interface Part {
  /** The transaction that it belongs to. */
  readonly transaction: Transaction;
  /** The task's partition, counted from 0. */
  readonly partition: number;
  /** Which try to deliver the partition this is; only one will count. It contains a `/`: escape it in file names. */
  readonly attempt: string;
}
