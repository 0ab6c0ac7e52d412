/** Bytes and messages that may be sent. */
export class Credit {
  constructor(
    public bytes = 0,
    public messages = 0,
  ) {}

  /** Adds what the gateway granted. */
  grant(bytes: bigint | number, messages: bigint | number): void {
    this.bytes += Number(bytes);
    this.messages += Number(messages);
  }

  /** Takes what is sent. */
  spend(bytes: number, messages: number): void {
    this.bytes -= bytes;
    this.messages -= messages;
  }

  /** Gives everything to another credit. */
  moveTo(other: Credit): void {
    other.grant(this.bytes, this.messages);
    this.bytes = this.messages = 0;
  }
}
