/** Which connectors a deployment runs, so that they can be restarted. */

import type { Deployment } from "./documents";

export interface Supervised {
  deployment: string;
  /** The name of the connector in its deployment. */
  name: string;
  restarting: boolean;
}

/** Returns the connector of a deployment with an instance; null if there is none, or more than one: it would be a guess. */
export function supervisedBy(deployments: Deployment[], instance: string): Supervised | null {
  const found = all(deployments).filter((one) => one.instance === instance);
  return found.length === 1 && found[0] ? found[0].supervised : null;
}

/** Returns the connectors of deployments that have no session. */
export function unconnected(deployments: Deployment[], instances: ReadonlySet<string>): Supervised[] {
  return all(deployments)
    .filter((one) => !instances.has(one.instance))
    .map((one) => one.supervised);
}

function all(deployments: Deployment[]): { instance: string; supervised: Supervised }[] {
  return deployments.flatMap(({ deployment, connectors, restarting }) =>
    connectors.map(({ name, instance }) => ({
      instance,
      supervised: { deployment, name, restarting: restarting.includes(name) },
    })),
  );
}
