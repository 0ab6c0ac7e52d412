/** Sources: what streams messages to a gateway. */
@NullMarked
package io.headrace.sdk.source;

import org.jspecify.annotations.NullMarked;
