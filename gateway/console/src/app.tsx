import { useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { signOut } from "./client/api";
import type { Feed, Snapshot } from "./client/feed";
import { causes, isFault } from "./model/causes";
import { bytes, clockTime, counted } from "./model/format";
import { Age } from "./parts/age";
import { SearchField } from "./parts/search_field";
import { adjust, formatRoute, go, useRoute, VIEWS, type View } from "./model/route";
import { Connectors } from "./views/connectors";
import { Letters } from "./views/dead_letters";
import { Graph } from "./views/graph";
import { Health } from "./views/health";
import { Overview } from "./views/overview";
import { Processes } from "./views/processes";
import { SignIn } from "./views/sign_in";
import { Search } from "./views/search";
import { Streams } from "./views/streams";
import { Timeline } from "./views/timeline";

const TITLES: Record<View, string> = {
  overview: "Overview",
  health: "Health",
  graph: "Graph",
  timeline: "Commit timeline",
  streams: "Streams",
  connectors: "Connectors",
  processes: "Processes",
  letters: "Dead letters",
  search: "Search",
};

export function App({ feed }: { feed: Feed }) {
  const snapshot = useSyncExternalStore(feed.subscribe, feed.current);
  const { view } = useRoute();
  const { status } = snapshot;
  const troubles = status ? causes(status.health.problems).filter((one) => isFault(one.problem)).length : 0;
  useEffect(() => {
    document.title = `${troubles ? `(${troubles}) ` : ""}${TITLES[view]} · Headrace`;
  }, [view, troubles]);
  if (snapshot.signInNeeded) return <SignIn feed={feed} me={snapshot.me} />;
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <span className="brand">Headrace</span>
        <nav aria-label="Views">
          {VIEWS.filter((name) => name !== "search" && (name !== "letters" || snapshot.mayPeek)).map((name) => (
            <a
              key={name}
              href={formatRoute({ view: name })}
              aria-current={name === view ? "page" : undefined}
              onClick={(event) => {
                if (event.metaKey || event.ctrlKey || event.shiftKey) return;
                event.preventDefault();
                go({ view: name });
              }}
            >
              {TITLES[name]}
              {name === "health" && troubles > 0 && (
                <span className="badge" aria-label={`${troubles} in trouble`}>
                  {troubles}
                </span>
              )}
            </a>
          ))}
        </nav>
        {status && <SearchField />}
        <Theme />
        {snapshot.me?.tokens_needed && (
          <button type="button" className="quiet" onClick={() => void signOut().finally(() => feed.clear())}>
            Sign out {snapshot.me.name}
          </button>
        )}
      </header>
      <Connection snapshot={snapshot} />
      <main id="main" tabIndex={-1} className={snapshot.stale ? "stale" : ""}>
        <h1>{TITLES[view]}</h1>
        {shown(view, feed, snapshot)}
      </main>
      {status && (
        <footer>
          <span>{status.gateway.address}</span>
          <span>version {status.gateway.version}</span>
          <span>
            up <Age ms={status.gateway.uptime_ms} row={status.gateway} />
          </span>
          <span>{counted(status.gateway.buffered_messages, "message")} buffered</span>
          <span>
            {bytes(status.gateway.buffered_bytes)} of {bytes(status.gateway.buffer_limit_bytes)}
          </span>
        </footer>
      )}
    </>
  );
}

function shown(view: View, feed: Feed, snapshot: Snapshot): ReactNode {
  const { me, status, mayControl, mayPeek } = snapshot;
  if (view === "overview" && me) return <Overview status={status} links={me.links} />;
  if (!status) return <p className="muted">Connecting to the gateway…</p>;
  switch (view) {
    case "overview":
      return null;
    case "health":
      return <Health status={status} mayControl={mayControl} />;
    case "graph":
      return <Graph status={status} history={feed.history} />;
    case "timeline":
      return <Timeline status={status} mayControl={mayControl} />;
    case "streams":
      return <Streams status={status} history={feed.history} mayControl={mayControl} mayPeek={mayPeek} />;
    case "connectors":
      return <Connectors status={status} mayControl={mayControl} />;
    case "processes":
      return <Processes status={status} mayControl={mayControl} />;
    case "search":
      return <Search status={status} />;
    case "letters":
      return <Letters status={status} mayControl={mayControl} />;
  }
}

function Connection({ snapshot }: { snapshot: Snapshot }) {
  return (
    <div role="status" className="connection">
      {snapshot.stale && (
        <p>
          <strong>Disconnected.</strong>{" "}
          {snapshot.heardAt
            ? `What you see is as of ${clockTime(snapshot.heardAt)}. Connecting again…`
            : "The gateway does not answer. Connecting again…"}
        </p>
      )}
    </div>
  );
}

function Theme() {
  const [theme, setTheme] = useState(() => localStorage.getItem("theme") ?? "auto");
  const asked = useRoute()["theme"];
  const chosen = asked ?? theme;
  useEffect(() => {
    document.documentElement.dataset["theme"] = chosen;
  }, [chosen]);
  return (
    <label className="theme">
      <span className="hidden">Colours</span>
      <select
        value={chosen}
        onChange={(event) => {
          localStorage.setItem("theme", event.target.value);
          setTheme(event.target.value);
          if (asked) adjust({ theme: "" });
        }}
      >
        <option value="auto">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
