/** Sinks: what writes the rows of Spark queries to a system. */
@NullMarked
package io.headrace.sdk.sink;

import org.jspecify.annotations.NullMarked;
