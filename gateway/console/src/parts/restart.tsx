import type { Restarted } from "../model/documents";
import type { Supervised } from "../model/supervised";
import { Order } from "./order";

/**
 * Asks whether to restart a connector of a deployment, and shows how that has ended. It stays while the connector has no session,
 * and with it no row of its own.
 */
export function Restart({ connector, onClose }: { connector: Supervised; onClose: () => void }) {
  const { name, deployment } = connector;
  return (
    <Order
      title={`Restart connector ${name} of ${deployment}?`}
      action="Restart"
      autoFocus
      waiting="Waits until it has a session again. The restart continues if you close this."
      path="connectors/restart"
      body={{ name, deployment }}
      told={(answer) => told(answer as Restarted)}
      onClose={onClose}
    >
      {() => (
        <p>
          It ends as with SIGTERM and starts again at once. What is not acknowledged is sent again, and no other process
          restarts.
        </p>
      )}
    </Order>
  );
}

function told(made: Restarted): string {
  const before =
    made.stopped_pid === null
      ? "it was not running"
      : `process ${made.stopped_pid} ended with exit code ${made.stopped_exit_code}`;
  const now = made.state === "runs" ? "runs" : "has reached its end";
  return `${made.name} is restarted: ${before}, process ${made.pid} ${now} (${made.duration_ms / 1000} s).`;
}
