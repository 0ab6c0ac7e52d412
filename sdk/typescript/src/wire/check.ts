import { isUtf8 } from "node:buffer";

import { InvalidMessageError } from "../errors.js";
import type { Frame } from "../gen/headrace/protocol/v1/frame_pb.js";
import { NULL_LENGTH } from "../message.js";
import { MAX_SEQUENCE } from "./sequence.js";
import { words } from "./words.js";

/** Throws {@link InvalidMessageError} if the columns of a frame do not add up (rules FRM-1 to FRM-11). */
export function checkFrame(frame: Frame): void {
  const { count } = frame;
  if (count === 0) throw new InvalidMessageError("a frame has no messages");
  checkDeltas(frame);
  checkColumn("values", frame.values, frame.valueLengths, count);
  if (frame.valueLengths.length === 0) throw new InvalidMessageError("a frame has no value_lengths");
  checkColumn("keys", frame.keys, frame.keyLengths, count);
  checkColumn("message_ids", frame.messageIds, frame.messageIdLengths, count);
  checkTexts("message_ids", frame.messageIds, frame.messageIdLengths);
  if (frame.eventTimes.length !== 0 && frame.eventTimes.length !== count * 8) {
    throw new InvalidMessageError(`event_times: ${count * 8} bytes expected, ${frame.eventTimes.length} arrived`);
  }
  let headers = 0;
  if (frame.headerCounts.length !== 0) {
    if (frame.headerCounts.length !== count * 4) throw wrongLength("header_counts", frame.headerCounts, count);
    for (const some of words(frame.headerCounts)) headers += some;
  }
  checkColumn("header_names", frame.headerNames, frame.headerNameLengths, headers);
  checkColumn("header_values", frame.headerValues, frame.headerValueLengths, headers);
  if (headers > 0 && (frame.headerNameLengths.length === 0 || frame.headerValueLengths.length === 0)) {
    throw new InvalidMessageError("a frame has headers without names or values");
  }
  if (words(frame.headerNameLengths).includes(NULL_LENGTH)) throw new InvalidMessageError("a header has no name");
  checkTexts("header_names", frame.headerNames, frame.headerNameLengths);
}

function checkDeltas({ firstSequence, sequenceDeltas, count }: Frame): void {
  let span = BigInt(count - 1);
  if (sequenceDeltas.length > 0) {
    if (sequenceDeltas.length !== (count - 1) * 4) throw wrongLength("sequence_deltas", sequenceDeltas, count - 1);
    const deltas = words(sequenceDeltas);
    if (deltas.includes(0)) throw new InvalidMessageError("sequence_deltas has a 0: sequences must increase");
    span = deltas.reduce((sum, delta) => sum + BigInt(delta), 0n);
  }
  if (firstSequence + span > MAX_SEQUENCE) throw new InvalidMessageError("a sequence is larger than 2^63 - 1");
}

function checkColumn(name: string, data: Uint8Array, lengths: Uint8Array, count: number): void {
  if (lengths.length === 0) {
    if (data.length > 0) throw new InvalidMessageError(`${name} is not empty, and has no lengths`);
    return;
  }
  if (lengths.length !== count * 4) throw wrongLength(`the lengths of ${name}`, lengths, count);
  let sum = 0;
  for (const length of words(lengths)) if (length !== NULL_LENGTH) sum += length;
  if (sum !== data.length)
    throw new InvalidMessageError(
      `the lengths of ${name} add up to ${sum}, and the size of the column is ${data.length}`,
    );
}

function checkTexts(name: string, data: Uint8Array, lengths: Uint8Array): void {
  if (data.length === 0) return;
  let at = 0;
  for (const length of words(lengths)) {
    if (length === NULL_LENGTH || length === 0) continue;
    if (!isUtf8(data.subarray(at, (at += length))))
      throw new InvalidMessageError(`${name} has bytes that are not UTF-8`);
  }
}

function wrongLength(name: string, column: Uint8Array, count: number): InvalidMessageError {
  return new InvalidMessageError(`${name}: ${count * 4} bytes expected, ${column.length} arrived`);
}
