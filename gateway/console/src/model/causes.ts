/** Groups what is wrong by its first cause. */

import type { Problem } from "./documents";
import { grouped } from "./group";
import { NO_FAULTS } from "./words";

/** Whether `/readyz` names a fault. A part that is paused or starts is none. */
export function isFault(problem: Problem): boolean {
  return !NO_FAULTS.includes(problem.kind);
}

export interface Cause {
  root: string;
  problem: Problem;
  affected: string[];
}

/** Returns one entry for each root, the oldest first, with the other parts that it degrades; entries without a fault come last.
 * */
export function causes(problems: Problem[]): Cause[] {
  const groups = grouped(problems, (problem) => `${problem.root}\n${problem.kind}`);
  return [...groups.values()]
    .flatMap((group) => {
      const problem = group.find((one) => one.part === one.root) ?? group[0];
      if (!problem) return [];
      const affected = group.map((one) => one.part).filter((part) => part !== problem.root);
      return [{ root: problem.root, problem, affected }];
    })
    .sort((a, b) => order(a).localeCompare(order(b)));
}

function order(cause: Cause): string {
  return `${isFault(cause.problem) ? "0" : "1"} ${cause.problem.since} ${cause.root}`;
}

/** "stream orders/0" becomes ["stream", "orders/0"]. */
export function splitPart(part: string): [kind: string, name: string] {
  const space = part.indexOf(" ");
  return space < 0 ? [part, ""] : [part.slice(0, space), part.slice(space + 1)];
}
