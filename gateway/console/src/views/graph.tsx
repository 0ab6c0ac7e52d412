import type { Status } from "../model/documents";
import { FLOWS, type Flow } from "../model/flow";
import { count, duration, rate } from "../model/format";
import { graph, type Node } from "../model/graph";
import type { History } from "../model/history";
import { splitPart } from "../model/causes";
import { FlowMark } from "../parts/flow_mark";
import { PartLink } from "../parts/link";
import { useNarrow } from "../parts/narrow";

const WIDTH = 266;
const HEAD = 66;
const STEP = 17;
const GAP_X = 56;
const GAP_Y = 10;
const COLUMNS = ["Sources", "Streams", "Pipelines", "Sinks"];
const SHOWN = 60;
const SHOWN_STEPS = 12;
const URGENT: Flow[] = ["trouble", "source stalled", "stalled", "no credit"];

interface Place {
  x: number;
  y: number;
  height: number;
}

export function Graph({ status, history }: { status: Status; history: History }) {
  const narrow = useNarrow();
  const { nodes, edges } = graph(status, history, duration);
  // Those that need attention come first, and stay among those that are drawn.
  const sorted = nodes.toSorted((a, b) => Number(URGENT.includes(b.flow)) - Number(URGENT.includes(a.flow)));
  const columns = COLUMNS.map((_, column) => sorted.filter((node) => node.column === column).slice(0, SHOWN));
  const hidden = nodes.length - columns.flat().length;
  return (
    <>
      <p className="legend" aria-label="Conditions">
        {FLOWS.map((one) => (
          <span key={one}>
            <FlowMark flow={one} />
          </span>
        ))}
      </p>
      {narrow ? <Lists columns={columns} /> : <Drawing columns={columns} edges={edges} />}
      {hidden > 0 && <p className="muted">and {count(hidden)} more parts: see Streams and Connectors</p>}
    </>
  );
}

/** Without room for four columns, the same nodes as lists. */
function Lists({ columns }: { columns: Node[][] }) {
  return columns.map((nodes, column) => (
    <section key={COLUMNS[column]} aria-label={COLUMNS[column]}>
      <h2>{COLUMNS[column]}</h2>
      {nodes.map((node) => (
        <div key={node.id} className={`node ${node.flow.replace(" ", "-")}`}>
          <Box node={node} />
        </div>
      ))}
    </section>
  ));
}

function Drawing({ columns, edges }: { columns: Node[][]; edges: [string, string][] }) {
  const places = new Map<string, Place>();
  let height = 0;
  columns.forEach((nodes, column) => {
    let y = 0;
    for (const node of nodes) {
      const own = HEAD + Math.min(node.steps.length, SHOWN_STEPS + 1) * STEP;
      places.set(node.id, { x: column * (WIDTH + GAP_X), y, height: own });
      y += own + GAP_Y;
    }
    height = Math.max(height, y);
  });
  const width = COLUMNS.length * (WIDTH + GAP_X) - GAP_X;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Graph">
      <div className="graph" style={{ width }}>
        <div className="titles">
          {COLUMNS.map((title, column) => (
            <h2 key={title} style={{ left: column * (WIDTH + GAP_X) }}>
              {title}
            </h2>
          ))}
        </div>
        <div className="drawing" style={{ width, height }}>
          <svg width={width} height={height} aria-hidden="true">
            {edges.map(([from, to]) => {
              const [a, b] = [places.get(from), places.get(to)];
              return a && b ? <path key={`${from}>${to}`} className="edge" d={line(a, b)} /> : null;
            })}
          </svg>
          {columns.flat().map((node) => {
            const place = places.get(node.id);
            return place ? (
              <div
                key={node.id}
                className={`node ${node.flow.replace(" ", "-")}`}
                style={{ left: place.x, top: place.y, width: WIDTH, height: place.height }}
              >
                <Box node={node} />
              </div>
            ) : null;
          })}
        </div>
      </div>
    </div>
  );
}

function line(a: Place, b: Place): string {
  const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEAD / 2, b.x, b.y + HEAD / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

function Box({ node }: { node: Node }) {
  const lagName = node.column === 0 ? "in flight" : node.column === 3 ? "pending" : "lag";
  const steps = node.steps.slice(0, SHOWN_STEPS);
  return (
    <>
      <div className="title">
        <span className="name" title={node.name}>
          <NodeLink node={node} />
        </span>
        <span className="flow">
          <FlowMark flow={node.flow} />
        </span>
      </div>
      <div className="numbers">
        <span>{node.rate === null ? "" : rate(node.rate)}</span>
        <span>
          <span className="muted">{lagName}</span> {count(node.lag)}
        </span>
      </div>
      <div className="pressure" title={node.pressure}>
        {node.pressure}
      </div>
      {steps.length > 0 && (
        <ol className="steps" aria-label={`Steps of ${node.name}`}>
          {steps.map((step) => (
            <li key={step.name}>
              <span className="step" title={step.name}>
                {step.name}
              </span>
              <span className={step.failed ? "bad" : ""}>{step.failed ? `${count(step.failed)} failed` : ""}</span>
              <span>{rate(step.received)}</span>
              <span>→ {rate(step.sent)}</span>
            </li>
          ))}
        </ol>
      )}
      {node.steps.length > steps.length && (
        <div className="muted">and {count(node.steps.length - steps.length)} more steps</div>
      )}
    </>
  );
}

/** The name of a node; that of many parts leads to a filter that shows them. */
function NodeLink({ node }: { node: Node }) {
  const [kind, name] = splitPart(node.id);
  return <PartLink part={name.endsWith("/*") ? `${kind} ${name.slice(0, -1)}` : node.id} label={node.name} />;
}
