/** Write a Headrace source or sink in a few lines of Java; see {@link io.headrace.sdk}. */
module io.headrace.sdk {
  requires com.google.protobuf;
  requires io.grpc;
  requires io.headrace.protocol;
  requires java.logging;
  requires jdk.unsupported;
  requires static transitive org.jspecify;

  exports io.headrace.sdk;
  exports io.headrace.sdk.sink;
  exports io.headrace.sdk.source;
}
