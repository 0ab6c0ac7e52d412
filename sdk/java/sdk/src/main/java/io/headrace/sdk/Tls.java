package io.headrace.sdk;

import java.nio.file.Path;
import java.util.Optional;

/**
 * Transport security. All files are in PEM.
 *
 * @param ca the certificates to trust; empty trusts the Java runtime's
 * @param certificate this connector's own certificate chain, for mutual TLS
 * @param key the private key that belongs to it, in PKCS #8
 * @param serverName the name that the gateway's certificate must have, if it differs from the
 *     address
 */
public record Tls(
    Optional<Path> ca,
    Optional<Path> certificate,
    Optional<Path> key,
    Optional<String> serverName) {

  /**
   * Checks that certificate and key come together.
   *
   * @param ca the certificates to trust; empty trusts the Java runtime's
   * @param certificate this connector's own certificate chain, for mutual TLS
   * @param key the private key that belongs to it, in PKCS #8
   * @param serverName the name that the gateway's certificate must have, if it differs from the
   *     address
   */
  public Tls {
    if (certificate.isPresent() != key.isPresent()) {
      throw new InvalidConnectorException("TLS needs a certificate and its key, or neither");
    }
  }

  /**
   * TLS that trusts the certificates of the Java runtime.
   *
   * @return TLS without an own certificate
   */
  public static Tls ofSystem() {
    return new Tls(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty());
  }

  /**
   * TLS that trusts the certificates in a file.
   *
   * @param ca the file
   * @return TLS without an own certificate
   */
  public static Tls trusting(Path ca) {
    return new Tls(Optional.of(ca), Optional.empty(), Optional.empty(), Optional.empty());
  }

  /**
   * The same with an own certificate: mutual TLS.
   *
   * @param chain the certificate chain
   * @param privateKey the key
   * @return TLS with both
   */
  public Tls withCertificate(Path chain, Path privateKey) {
    return new Tls(ca, Optional.of(chain), Optional.of(privateKey), serverName);
  }

  /**
   * The same for a gateway whose certificate has another name than its address.
   *
   * @param name the name in the certificate
   * @return TLS that expects the name
   */
  public Tls withServerName(String name) {
    return new Tls(ca, certificate, key, Optional.of(name));
  }
}
