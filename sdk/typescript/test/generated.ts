export * from "../src/gen/headrace/protocol/v1/connector_pb.js";
export * from "../src/gen/headrace/protocol/v1/frame_pb.js";
export * from "../src/gen/headrace/protocol/v1/source_pb.js";
export * from "../src/gen/headrace/protocol/v1/sink_pb.js";
