package io.headrace.sdk.internal.wire;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import com.google.protobuf.UnsafeByteOperations;
import io.grpc.Drainable;
import io.grpc.KnownLength;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;

/** Carries protobuf messages over gRPC. The columns of a frame are not copied where gRPC allows. */
record Marshaller<T extends MessageLite>(Parser<T> parser)
    implements MethodDescriptor.Marshaller<T> {

  @Override
  public InputStream stream(T message) {
    return new Outgoing(message);
  }

  @Override
  public T parse(InputStream stream) {
    try {
      byte[] bytes = stream instanceof KnownLength ? readKnown(stream) : stream.readAllBytes();
      // The bytes change no more, so that columns may refer to them.
      CodedInputStream input = UnsafeByteOperations.unsafeWrap(bytes).newCodedInput();
      input.enableAliasing(true);
      T message = parser.parseFrom(input);
      input.checkLastTagWas(0);
      return message;
    } catch (InvalidProtocolBufferException error) {
      throw Status.INTERNAL
          .withDescription("the gateway sent what is not protobuf")
          .withCause(error)
          .asRuntimeException();
    } catch (IOException error) {
      throw Status.INTERNAL.withCause(error).asRuntimeException();
    }
  }

  private static byte[] readKnown(InputStream stream) throws IOException {
    byte[] bytes = new byte[stream.available()];
    int read = stream.readNBytes(bytes, 0, bytes.length);
    return read == bytes.length ? bytes : Arrays.copyOf(bytes, read);
  }

  /** A message on its way out, which gRPC drains into its own buffers. */
  private static final class Outgoing extends InputStream implements Drainable, KnownLength {
    private final MessageLite message;
    private InputStream bytes;

    Outgoing(MessageLite message) {
      this.message = message;
    }

    @Override
    public int drainTo(OutputStream target) throws IOException {
      if (bytes != null) {
        return (int) bytes.transferTo(target);
      }
      message.writeTo(target);
      bytes = InputStream.nullInputStream();
      return message.getSerializedSize();
    }

    @Override
    public int available() throws IOException {
      return bytes == null ? message.getSerializedSize() : bytes.available();
    }

    @Override
    public int read() throws IOException {
      return serialized().read();
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
      return serialized().read(target, offset, length);
    }

    private InputStream serialized() {
      if (bytes == null) {
        bytes = new ByteArrayInputStream(message.toByteArray());
      }
      return bytes;
    }
  }
}
