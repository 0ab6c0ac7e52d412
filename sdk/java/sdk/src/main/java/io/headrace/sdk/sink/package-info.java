/** Sinks: what writes the rows of Spark queries to a system. */
package io.headrace.sdk.sink;
