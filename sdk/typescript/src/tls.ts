/** Transport security. Each text or buffer is the content of a PEM file. */
export interface Tls {
  /** The certificates to trust. Default: the certificates that Node.js trusts. */
  readonly ca?: string | Buffer;
  /** This connector's own certificate chain, for mutual TLS; needs `key`. */
  readonly cert?: string | Buffer;
  /** The private key that belongs to `cert`. */
  readonly key?: string | Buffer;
  /** The name that the gateway's certificate must have, if it differs from the address. */
  readonly serverName?: string;
}
