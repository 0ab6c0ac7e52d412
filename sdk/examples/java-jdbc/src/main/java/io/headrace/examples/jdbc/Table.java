package io.headrace.examples.jdbc;

import java.util.List;
import java.util.Optional;

/**
 * The part of each row that the source reads.
 *
 * @param name the table, as it is written in SQL
 * @param growth the order of the rows
 * @param key the column that is the key
 * @param value the column that is the value; empty for an object of all columns
 * @param columns all columns
 * @param paging what ends a statement of which only a page of rows is wanted
 */
record Table(
    String name,
    Growth growth,
    Column key,
    Optional<Column> value,
    List<Column> columns,
    String paging) {}
