/**
 * Write a Headrace source or sink in TypeScript: implement {@link Source} or {@link Sink}, and {@link run} it.
 *
 * @packageDocumentation
 */
export { run } from "./run.js";
export { start, type Connector } from "./start.js";
export { DEFAULT_GATEWAY, type Options } from "./options.js";
export type { Tls } from "./tls.js";
export type {
  ReadContext,
  RedeliveringSource,
  ReplayableSource,
  ResumableSource,
  Source,
  SourceBase,
  Starts,
} from "./source.js";
export {
  CLOSE,
  GONE,
  IDLE,
  NULL_LENGTH,
  NULL_TIME,
  type Backlog,
  type Batch,
  type Bytes,
  type DeliveredBatch,
  type DeliveredItem,
  type DeliveredMessage,
  type Headers,
  type Item,
  type Message,
  type Packed,
  type Position,
  type Sequence,
  type Steps,
} from "./message.js";
export {
  WRITTEN,
  type AtLeastOnceSink,
  type IdempotentSink,
  type Outcomes,
  type Recovered,
  type Refused,
  type Sink,
  type SinkBase,
  type TwoPhaseSink,
} from "./sink.js";
export type { Part, Transaction } from "./transaction.js";
export { Rows, type Row } from "./rows.js";
export {
  GatewayRefusedError,
  GatewayUnavailableError,
  HeadraceError,
  InvalidMessageError,
  InvalidOptionsError,
  InvalidOutcomesError,
  InvalidSinkError,
  InvalidSourceError,
  MessageTooLargeError,
  NotPermittedError,
  PositionLostError,
  SessionEndedError,
  SessionTakenOverError,
  SinkFailedError,
  SourceFailedError,
  type SessionEnd,
} from "./errors.js";
export { Health } from "./health.js";
export { stderrLogger, type LogFields, type Logger } from "./logger.js";
export { noMetrics, type Attributes, type Counter, type Metrics } from "./metrics.js";
export { VERSION } from "./version.js";
