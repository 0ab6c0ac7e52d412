/** A table of any length: only the rows in view are drawn. Sorted by its headers, and walked through with the arrow keys. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, type KeyboardEvent, type ReactNode } from "react";
import { count } from "../model/format";
import { adjust } from "../model/route";
import { arranged, type SortValue } from "../model/table";
import { FilterField } from "./filter_field";

const ROW_PX = 28;
const FRAMES = 30;

export interface Column<Row> {
  key: string;
  title: string;
  value: (row: Row) => SortValue;
  cell: (row: Row) => ReactNode;
}

interface Props<Row> {
  label: string;
  /** Also names the widths of the columns in the style sheet. */
  kind: string;
  rows: Row[];
  columns: Column<Row>[];
  name: (row: Row) => string;
  filter: string;
  sort: string;
  selected: string | undefined;
  onSelect: (name: string) => void;
  /** What stands between the filter and the rows. */
  children: ReactNode;
}

export function Grid<Row>({
  label,
  kind,
  rows: all,
  columns,
  name,
  filter,
  sort,
  selected,
  onSelect,
  children,
}: Props<Row>) {
  const rows = useMemo(
    () => arranged(all, filter, sort, name, Object.fromEntries(columns.map((one) => [one.key, one.value]))),
    [all, filter, sort, name, columns],
  );
  const body = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => body.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
  });

  // A row far away is drawn, and its height known, only some frames later.
  function focus(index: number, frames: number): void {
    const button = body.current?.querySelector<HTMLElement>(`[data-index="${index}"] button`);
    if (button) button.focus();
    else if (frames) {
      virtual.scrollToIndex(index);
      requestAnimationFrame(() => focus(index, frames - 1));
    }
  }

  // The name in each row is a button; the arrow keys move from one to the next, also to rows that are not drawn yet.
  function move(event: KeyboardEvent<HTMLDivElement>): void {
    const at = Number((event.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset["index"] ?? -1);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
    const next = steps[event.key];
    if (next === undefined || next < 0 || next >= rows.length) return;
    event.preventDefault();
    virtual.scrollToIndex(next);
    focus(next, FRAMES);
  }

  return (
    <>
      <div className="tools">
        <FilterField value={filter} />
        <span className="muted" role="status">
          {count(rows.length)} of {count(all.length)}
        </span>
      </div>
      {children}
      <div
        ref={body}
        className={`table ${kind}`}
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        // Scrolled by keyboard as well.
        tabIndex={0}
        onKeyDown={move}
      >
        <div role="rowgroup" className="head">
          <div role="row" className="row" aria-rowindex={1}>
            {columns.map(({ key, title }) => (
              <div key={key} role="columnheader" className={key} aria-sort={sorted(sort, key)}>
                <button
                  type="button"
                  className="quiet"
                  onClick={() => adjust({ sort: sort === `-${key}` ? key : `-${key}` })}
                >
                  {title}
                  <span aria-hidden="true">{sort === key ? " ↑" : sort === `-${key}` ? " ↓" : ""}</span>
                </button>
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="rows" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            return row ? (
              <div
                key={name(row)}
                role="row"
                className={name(row) === selected ? "row selected" : "row"}
                aria-rowindex={item.index + 2}
                data-index={item.index}
                // A long name or error takes several lines, and is not cut.
                ref={virtual.measureElement}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {columns.map((column, index) => (
                  <div key={column.key} role="cell" className={column.key}>
                    {index ? (
                      column.cell(row)
                    ) : (
                      <button type="button" className="quiet" onClick={() => onSelect(name(row))}>
                        {column.cell(row)}
                      </button>
                    )}
                  </div>
                ))}
              </div>
            ) : null;
          })}
        </div>
      </div>
    </>
  );
}

function sorted(sort: string, key: string): "ascending" | "descending" | "none" {
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
}
