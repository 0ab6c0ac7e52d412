package io.headrace.sdk.internal.wire;

import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.ErrorReason;
import io.headrace.rpc.ErrorInfo;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.GatewayUnavailableException;
import io.headrace.sdk.SessionEndedException;
import java.net.ProxySelector;
import java.util.EnumSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Decides by how a call has ended whether to reconnect. */
public final class Endings {
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private static final Set<ErrorReason> TEMPORARY_REASONS =
      EnumSet.of(
          ErrorReason.ERROR_REASON_TOO_MANY_SESSIONS,
          ErrorReason.ERROR_REASON_HELLO_TIMEOUT,
          ErrorReason.ERROR_REASON_READ_TIMEOUT,
          ErrorReason.ERROR_REASON_GATEWAY_STOPPING);

  private static final Map<String, ErrorReason> REASONS =
      Stream.of(ErrorReason.values())
          .collect(
              Collectors.toMap(
                  value -> value.name().replaceFirst("^ERROR_REASON_", ""), value -> value));

  // gRPC reports broken connections and failures inside the gateway as INTERNAL or UNKNOWN.
  private static final Set<Status.Code> TEMPORARY =
      EnumSet.of(
          Status.Code.UNAVAILABLE,
          Status.Code.DEADLINE_EXCEEDED,
          Status.Code.CANCELLED,
          Status.Code.INTERNAL,
          Status.Code.UNKNOWN,
          Status.Code.OK);

  // How a server, or a proxy before it, ends a connection that pings more often than it allows.
  private static final Pattern PINGED_TOO_OFTEN =
      Pattern.compile("too[ _]many[ _]pings|ENHANCE_YOUR_CALM", Pattern.CASE_INSENSITIVE);

  private Endings() {}

  /** The error of a call that has ended, which says whether to reconnect. */
  public static SessionEndedException of(String gateway, Status status, Metadata trailers) {
    String description = describe(status);
    String reason = errorInfo(trailers).map(ErrorInfo::getReason).orElse("");
    String text =
        "gateway %s%s: %s (%s)"
            .formatted(
                gateway,
                // Without a reason, the gateway may never have been reached.
                reason.isEmpty() ? Proxies.through(gateway, ProxySelector.getDefault()) : "",
                description,
                reason.isEmpty() ? status.getCode() : status.getCode() + ", " + reason);
    if (reason.equals("TAKEN_OVER") || status.getCode() == Status.Code.ABORTED) {
      text += "; give each running copy of a connector an instance of its own";
    }
    return isTemporary(status, reason, description)
        ? new GatewayUnavailableException(text, status.getCode().name(), reason)
        : new GatewayRefusedException(text, status.getCode().name(), reason);
  }

  private static boolean isTemporary(Status status, String reason, String description) {
    ErrorReason known = REASONS.get(reason);
    if (known != null) {
      return TEMPORARY_REASONS.contains(known);
    }
    return TEMPORARY.contains(status.getCode())
        || (status.getCode() == Status.Code.RESOURCE_EXHAUSTED
            && PINGED_TOO_OFTEN.matcher(description).find());
  }

  private static String describe(Status status) {
    String description = status.getDescription();
    Throwable cause = status.getCause();
    if (description == null) {
      return cause == null ? "no reason given" : String.valueOf(cause.getMessage());
    }
    // Where a connection cannot be made, only the cause says why.
    return cause == null || cause.getMessage() == null || description.contains(cause.getMessage())
        ? description
        : description + ": " + cause.getMessage();
  }

  private static Optional<ErrorInfo> errorInfo(Metadata trailers) {
    byte[] details = trailers == null ? null : trailers.get(DETAILS);
    if (details == null) {
      return Optional.empty();
    }
    try {
      for (io.headrace.rpc.Status.Detail detail :
          io.headrace.rpc.Status.parseFrom(details).getDetailsList()) {
        if (detail.getTypeUrl().endsWith("/google.rpc.ErrorInfo")) {
          ErrorInfo info = ErrorInfo.parseFrom(detail.getValue());
          if (info.getDomain().equals("headrace")) {
            return Optional.of(info);
          }
        }
      }
    } catch (InvalidProtocolBufferException error) {
      // The status decides, as if there were no details.
      return Optional.empty();
    }
    return Optional.empty();
  }
}
