import type { ReactNode } from "react";
import { splitPart } from "../model/causes";
import { formatRoute, go, type Route } from "../model/route";

/** A link to another view, which loads nothing. Its name is its content, unless one is given. */
export function ViewLink({ to, name, children }: { to: Route; name?: string | undefined; children: ReactNode }) {
  return (
    <a
      aria-label={name}
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

const END = 12;

/** The name of a part, or another label, which leads to the view that shows the part; cut where it does not fit. */
export function PartLink({ part, label = part, isCut = false }: { part: string; label?: string; isCut?: boolean }) {
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
  if (!target) return <>{label}</>;
  return (
    <ViewLink to={target} name={isCut ? label : undefined}>
      {isCut ? <Name text={label} /> : label}
    </ViewLink>
  );
}

/** A name whose end stays where it is cut: the names of a site often differ in nothing else. */
function Name({ text }: { text: string }) {
  const letters = Array.from(text);
  if (letters.length <= 2 * END) return <>{text}</>;
  return (
    <span className="long-name">
      <span>{letters.slice(0, -END).join("")}</span>
      <span>{letters.slice(-END).join("")}</span>
    </span>
  );
}
