/**
 * Write a Headrace source or sink in a few lines of Java. {@link io.headrace.sdk.Connector} runs a
 * {@link io.headrace.sdk.source.Source} or a {@link io.headrace.sdk.sink.Sink}.
 *
 * <p>Packages below {@code io.headrace.sdk.internal} are not part of the interface.
 */
@NullMarked
package io.headrace.sdk;

import org.jspecify.annotations.NullMarked;
