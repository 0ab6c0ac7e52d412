package io.headrace.sdk.sink;

/**
 * Identifies the rows of one Spark task.
 *
 * @param transaction the transaction to which they belong
 * @param partition the partition of the task, counted from 0
 * @param attempt this attempt to deliver the partition, unique among all attempts. It contains a
 *     {@code /}: escape it before you use it as the name of a file
 */
public record Part(Transaction transaction, int partition, String attempt) {}
