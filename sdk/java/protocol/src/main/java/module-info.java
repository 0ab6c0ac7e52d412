/** The messages of Headrace's protocol, generated from its protos. */
module io.headrace.protocol {
  requires transitive com.google.protobuf;

  exports io.headrace.protocol.v1;
  exports io.headrace.rpc;
}
