package io.headrace.sdk.internal;

/** What this library says of itself. */
public final class Sdk {
  /** The version of the protocol that it speaks. */
  public static final int PROTOCOL_VERSION = 1;

  /** Its name, version and language. */
  public static final io.headrace.protocol.v1.Sdk SELF =
      io.headrace.protocol.v1.Sdk.newBuilder()
          .setName("headrace-java")
          .setVersion("0.1.0")
          .setLanguage("java")
          .build();

  private Sdk() {}
}
