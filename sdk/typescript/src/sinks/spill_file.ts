import { open, rm, type FileHandle } from "node:fs/promises";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { fromBinary, toBinary } from "@bufbuild/protobuf";

import { FrameSchema, type Frame } from "../gen/headrace/protocol/v1/frame_pb.js";

/** Where a frame is in a file. */
export interface Place {
  readonly at: number;
  readonly length: number;
}

/** A temporary file for frames that do not fit into memory. It is created when it is needed, and has no name after that. */
export class SpillFile {
  #file: Promise<FileHandle> | undefined;
  #end = 0;

  /** Writes a frame. */
  async write(frame: Frame): Promise<Place> {
    const bytes = toBinary(FrameSchema, frame);
    const place = { at: this.#end, length: bytes.length };
    this.#end += bytes.length;
    const file = await (this.#file ??= create());
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await file.write(bytes, done, bytes.length - done, place.at + done);
      done += bytesWritten;
    }
    return place;
  }

  /** Reads a frame. */
  async read({ at, length }: Place): Promise<Frame> {
    const file = await this.#file!;
    const bytes = Buffer.allocUnsafe(length);
    for (let done = 0; done < length;) {
      const { bytesRead } = await file.read(bytes, done, length - done, at + done);
      if (bytesRead === 0)
        throw new Error(`a temporary file ends at ${at + done}, within a frame that ends at ${at + length}`);
      done += bytesRead;
    }
    return fromBinary(FrameSchema, bytes);
  }

  /** Deletes the file. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    this.#end = 0;
    await (await file)?.close();
  }
}

async function create(): Promise<FileHandle> {
  const path = join(tmpdir(), `headrace-${randomUUID()}`);
  const file = await open(path, "wx+", 0o600);
  // The space is released when the file is closed, however the process ends.
  await rm(path);
  return file;
}
