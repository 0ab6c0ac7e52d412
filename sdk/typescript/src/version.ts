/** The version of this package. A test compares it with package.json. */
export const VERSION = "0.1.0";
/** The version of the protocol. */
export const PROTOCOL_VERSION = 1;

/** How the SDK names itself to a gateway. */
export const SDK = { name: "headrace-typescript", version: VERSION, language: "typescript" };
