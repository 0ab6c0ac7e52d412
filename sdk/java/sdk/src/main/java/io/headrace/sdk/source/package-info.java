/** Sources: what streams messages to a gateway. */
package io.headrace.sdk.source;
