/** Which connectors a deployment runs, so that they can be restarted, and which dead letters it can replay. */

import type { Deployment, Pipeline } from "./documents";

export interface Supervised {
  deployment: string;
  /** The name of the connector in its deployment. */
  name: string;
  restarting: boolean;
  instance: string;
  /** Why its process does not run. */
  failure: string | null;
  /** For how long it has not run. */
  failingMs: number;
  heard_at: number;
}

/** Returns the connector of a deployment with an instance; null if there is none, or more than one: it would be a guess. */
export function supervisedBy(deployments: Deployment[], instance: string): Supervised | null {
  const found = all(deployments).filter((one) => one.instance === instance);
  return found.length === 1 && found[0] ? found[0] : null;
}

/** Returns the connectors of deployments that have no session. */
export function unconnected(deployments: Deployment[], instances: ReadonlySet<string>): Supervised[] {
  return all(deployments).filter((one) => !instances.has(one.instance));
}

/** Which deployment can replay the dead letters of a sink. */
export interface Replaying {
  deployment: string;
  busy: boolean;
}

/** Returns the deployment that can replay the dead letters of a sink; null if none can, or if it would be a guess. */
export function replaying(deployments: Deployment[], sink: string): Replaying | null {
  const found = deployments.flatMap(({ deployment, connectors, replaying }) =>
    connectors.filter((one) => one.replays === sink).map((one) => ({ deployment, busy: replaying.includes(one.name) })),
  );
  return found.length === 1 && found[0] ? found[0] : null;
}

/**
 * Returns the sources under whose names dead letters can be sent: a pipeline reads all streams of each. First the sources
 * that dead letters come from.
 */
export function sourcesToReplay(pipelines: Pipeline[], from: string[]): string[] {
  const read = pipelines
    .flatMap((pipeline) => pipeline.patterns)
    .filter((pattern) => pattern.endsWith("/*"))
    .map((pattern) => pattern.slice(0, -2))
    .filter((source) => !source.includes("*"));
  const first = [...new Set(read)].filter((source) => from.includes(source));
  return [...new Set([...first, ...read])];
}

function all(deployments: Deployment[]): Supervised[] {
  return deployments.flatMap(({ deployment, connectors, restarting, heard_at = 0 }) =>
    connectors.map(({ name, instance, failure, failing_ms }) => {
      const restarts = restarting.includes(name);
      return { deployment, name, instance, failure, failingMs: failing_ms ?? 0, restarting: restarts, heard_at };
    }),
  );
}
