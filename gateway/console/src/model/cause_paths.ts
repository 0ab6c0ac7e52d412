/** The way from what is degraded to where it began, in the graph. */

import { isFault } from "./causes";
import type { Problem } from "./documents";

export interface CausePaths {
  /** The nodes where something began, each with its first cause. */
  roots: Map<string, string>;
  /** The edges between them and what they degrade, as "FROM>TO". */
  edges: Set<string>;
}

/**
 * Returns the ways in the graph to the first causes.
 *
 * @param nodeOf The node of a part; undefined if the graph has none.
 */
export function causePaths(
  problems: Problem[],
  edges: [from: string, to: string][],
  nodeOf: (part: string) => string | undefined,
): CausePaths {
  const found: CausePaths = { roots: new Map(), edges: new Set() };
  const next = new Map<string, { node: string; edge: string }[]>();
  const add = (node: string, other: string, edge: string): void => {
    next.set(node, [...(next.get(node) ?? []), { node: other, edge }]);
  };
  for (const [from, to] of edges) {
    add(from, to, `${from}>${to}`);
    add(to, from, `${from}>${to}`);
  }
  for (const problem of problems) {
    if (!isFault(problem)) continue;
    const [root, part] = [nodeOf(problem.root), nodeOf(problem.part)];
    if (root === undefined) continue;
    // A part that waits has the cause of its root.
    if (!found.roots.has(root)) found.roots.set(root, problem.cause);
    if (part !== undefined && part !== root) for (const edge of path(next, part, root)) found.edges.add(edge);
  }
  return found;
}

/** The edges of the shortest way between two nodes; none if there is no way. */
function path(next: Map<string, { node: string; edge: string }[]>, from: string, to: string): string[] {
  const came = new Map<string, { node: string; edge: string } | null>([[from, null]]);
  const waiting = [from];
  for (let node = waiting.shift(); node !== undefined && node !== to; node = waiting.shift()) {
    for (const step of next.get(node) ?? []) {
      if (came.has(step.node)) continue;
      came.set(step.node, { node, edge: step.edge });
      waiting.push(step.node);
    }
  }
  const edges: string[] = [];
  for (let step = came.get(to); step; step = came.get(step.node)) edges.push(step.edge);
  return edges;
}
