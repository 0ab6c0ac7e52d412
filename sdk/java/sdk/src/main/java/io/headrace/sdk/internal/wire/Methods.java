package io.headrace.sdk.internal.wire;

import io.grpc.MethodDescriptor;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachResponse;

/** The calls that connectors make. */
public final class Methods {
  /** Streams the messages of a source. */
  public static final MethodDescriptor<IngestRequest, IngestResponse> INGEST =
      MethodDescriptor.newBuilder(
              new Marshaller<>(IngestRequest.parser()), new Marshaller<>(IngestResponse.parser()))
          .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
          .setFullMethodName("headrace.protocol.v1.SourceService/Ingest")
          .build();

  /** Streams rows to a sink. */
  public static final MethodDescriptor<SinkServiceAttachRequest, SinkServiceAttachResponse> ATTACH =
      MethodDescriptor.newBuilder(
              new Marshaller<>(SinkServiceAttachRequest.parser()),
              new Marshaller<>(SinkServiceAttachResponse.parser()))
          .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
          .setFullMethodName("headrace.protocol.v1.SinkService/Attach")
          .build();

  private Methods() {}
}
