import { useMemo } from "react";
import type { CausePaths } from "../model/cause_paths";
import type { Status } from "../model/documents";
import { CONDITIONS, type Condition } from "../model/words";
import { count, duration, rate } from "../model/format";
import { graph, type Node, type NodeStep } from "../model/graph";
import type { History } from "../model/history";
import { splitPart } from "../model/causes";
import { layout, type Place } from "../model/layout";
import { markOf } from "../model/marks";
import { Mark } from "../parts/mark";
import { PartLink } from "../parts/link";
import { useNarrow } from "../parts/narrow";

const WIDTH = 266;
const HEAD = 83;
/** How much higher the node of a first cause is that needs more than two lines: three more. */
const CAUSE = 51;
const FITS_TWO_LINES = 50;
const STEP = 17;
const COLUMNS = ["Sources", "Streams", "Pipelines", "Sinks"];
const SHOWN = 60;
const SHOWN_STEPS = 12;
const URGENT: Condition[] = ["trouble", "source stalled", "stalled", "no credit"];

export function Graph({ status, history }: { status: Status; history: History }) {
  const narrow = useNarrow();
  const { nodes, edges, causes } = graph(status, history, duration);
  // Nodes that need attention come first, and so are drawn.
  const sorted = nodes.toSorted((a, b) => Number(URGENT.includes(b.condition)) - Number(URGENT.includes(a.condition)));
  const columns = COLUMNS.map((_, column) => sorted.filter((node) => node.column === column).slice(0, SHOWN));
  const shown = new Set(columns.flat().map((node) => node.id));
  const hidden = nodes.length - columns.flat().length;
  return (
    <>
      <p className="legend" aria-label="Conditions">
        {CONDITIONS.map((one) => (
          <span key={one}>
            <Mark of={one} />
          </span>
        ))}
      </p>
      {narrow ? (
        <Lists columns={columns} causes={causes} />
      ) : (
        <Drawing
          nodes={columns.flat()}
          edges={edges.filter(([from, to]) => shown.has(from) && shown.has(to))}
          causes={causes}
        />
      )}
      {hidden > 0 && <p className="muted">and {count(hidden)} more parts: see Streams and Connectors</p>}
    </>
  );
}

/** Without room for four columns, the same nodes as lists. */
function Lists({ columns, causes }: { columns: Node[][]; causes: CausePaths }) {
  return columns.map((nodes, column) => (
    <section key={COLUMNS[column]} aria-label={COLUMNS[column]}>
      <h2>{COLUMNS[column]}</h2>
      {nodes.map((node) => (
        <div key={node.id} className={classOf(node, causes)}>
          <Box node={node} cause={causes.roots.get(node.id)} />
        </div>
      ))}
    </section>
  ));
}

interface DrawingProps {
  nodes: Node[];
  edges: [string, string][];
  causes: CausePaths;
}

function Drawing({ nodes, edges, causes }: DrawingProps) {
  const boxes = nodes.map((node) => ({
    id: node.id,
    layer: node.column,
    width: WIDTH,
    height: HEAD + heightOfCause(causes.roots.get(node.id)) + Math.min(node.steps.length, SHOWN_STEPS + 1) * STEP,
  }));
  // Numbers change each second, and places only if the parts do.
  const shape = JSON.stringify([boxes, edges]);
  const { places, width, height } = useMemo(() => {
    const [known, joined] = JSON.parse(shape) as [typeof boxes, typeof edges];
    return layout(known, joined);
  }, [shape]);
  const titles = COLUMNS.flatMap((title, column) => {
    const first = nodes.find((node) => node.column === column);
    const place = first && places.get(first.id);
    return place ? [{ title, left: place.x }] : [];
  });
  // What leads to a first cause is drawn over the others.
  const drawn = edges.toSorted((a, b) => Number(isCause(causes, a)) - Number(isCause(causes, b)));
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Graph">
      <div className="graph" style={{ width }}>
        <div className="titles">
          {titles.map(({ title, left }) => (
            <h2 key={title} style={{ left }}>
              {title}
            </h2>
          ))}
        </div>
        <div className="drawing" style={{ width, height }}>
          <svg width={width} height={height} aria-hidden="true">
            {drawn.map((edge) => {
              const [from, to] = edge;
              const [a, b] = [places.get(from), places.get(to)];
              const kind = isCause(causes, edge) ? "edge cause" : "edge";
              return a && b ? <path key={`${from}>${to}`} className={kind} d={line(a, b)} /> : null;
            })}
          </svg>
          {nodes.map((node) => {
            const place = places.get(node.id);
            return place ? (
              <div
                key={node.id}
                className={classOf(node, causes)}
                style={{ left: place.x, top: place.y, width: WIDTH, height: place.height }}
              >
                <Box node={node} cause={causes.roots.get(node.id)} />
              </div>
            ) : null;
          })}
        </div>
      </div>
    </div>
  );
}

function heightOfCause(cause: string | undefined): number {
  return cause !== undefined && cause.length > FITS_TWO_LINES ? CAUSE : 0;
}

function isCause(causes: CausePaths, [from, to]: [string, string]): boolean {
  return causes.edges.has(`${from}>${to}`);
}

function classOf(node: Node, causes: CausePaths): string {
  return `node tone-${markOf(node.condition).tone}${causes.roots.has(node.id) ? " first-cause" : ""}`;
}

function line(a: Place, b: Place): string {
  const [x1, y1, x2, y2] = [a.x + a.width, a.y + HEAD / 2, b.x, b.y + HEAD / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

function Box({ node, cause }: { node: Node; cause: string | undefined }) {
  const lagName = node.column === 0 ? "in flight" : node.column === 3 ? "pending" : "lag";
  const steps = node.steps.slice(0, SHOWN_STEPS);
  return (
    <>
      <div className="title">
        <span className="name" title={node.name}>
          <NodeLink node={node} />
        </span>
        <span className="flow">
          <Mark of={node.condition} />
        </span>
      </div>
      <div className="numbers">
        <span>{node.rate === null ? "" : rate(node.rate)}</span>
        <span>
          <span className="muted">{lagName}</span> {count(node.lag)}
        </span>
      </div>
      <div className="pressure" title={cause ?? node.pressure}>
        {cause !== undefined && <span className="tag bad">first cause</span>} {cause ?? node.pressure}
      </div>
      {steps.length > 0 && (
        <ol className="steps" aria-label={`Steps of ${node.name}`}>
          {steps.map((step) => (
            <li key={step.name}>
              <span className="step" title={step.name}>
                {step.name}
              </span>
              <span className={step.failed || step.violated ? "bad" : ""}>{faults(step)}</span>
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

/** The failures of a step, in words; empty if there are none. */
function faults({ failed, violated }: NodeStep) {
  return [failed ? `${count(failed)} failed` : "", violated ? `${count(violated)} against contract` : ""]
    .filter(Boolean)
    .join(", ");
}

/** The name of a node; for a node of many parts, a link to a filter that shows them. */
function NodeLink({ node }: { node: Node }) {
  const [kind, name] = splitPart(node.id);
  return <PartLink part={name.endsWith("/*") ? `${kind} ${name.slice(0, -1)}` : node.id} label={node.name} isCut />;
}
