import type { ReactNode } from "react";
import { splitPart } from "../model/causes";
import { formatRoute, go, type Route } from "../model/route";

/** A link to another view, which loads nothing. */
export function ViewLink({ to, children }: { to: Route; children: ReactNode }) {
  return (
    <a
      href={formatRoute(to)}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}

/** The name of a part, or another label, which leads to the view that shows the part. */
export function PartLink({ part, label = part }: { part: string; label?: string }) {
  const [kind, name] = splitPart(part);
  const to: Record<string, Route> = {
    stream: { view: "streams", filter: name },
    pipeline: { view: "timeline", pipeline: name },
    sink: { view: "connectors", filter: name },
    process: { view: "processes", filter: name.split(" of ", 1)[0] },
    deployment: { view: "processes", filter: name },
    // The connector of a sink is "INSTANCE of sink SINK".
    connector: { view: "connectors", filter: name.split(" of sink ", 1)[0] },
  };
  const target = to[kind];
  return target ? <ViewLink to={target}>{label}</ViewLink> : <>{label}</>;
}
