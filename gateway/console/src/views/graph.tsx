import type { Status } from "../model/documents";
import { count, rate } from "../model/format";
import { graph, type Node } from "../model/graph";
import type { History } from "../model/history";
import { PartLink } from "../parts/link";

const WIDTH = 210;
const HEIGHT = 58;
const GAP_X = 70;
const GAP_Y = 14;
const TOP = 28;
const COLUMNS = ["Sources", "Streams", "Pipelines", "Sinks"];
const SHOWN = 60;

export function Graph({ status, history }: { status: Status; history: History }) {
  const { nodes, edges } = graph(status, history, { rate, count });
  const columns = COLUMNS.map((_, column) => nodes.filter((node) => node.column === column).slice(0, SHOWN));
  const places = new Map<string, { x: number; y: number }>();
  columns.forEach((column, index) => {
    column.forEach((node, row) => {
      places.set(node.id, { x: index * (WIDTH + GAP_X), y: TOP + row * (HEIGHT + GAP_Y) });
    });
  });
  const height = TOP + Math.max(1, ...columns.map((column) => column.length)) * (HEIGHT + GAP_Y);
  const width = 4 * WIDTH + 3 * GAP_X;
  const hidden = nodes.length - columns.flat().length;
  return (
    <>
      <p className="legend" aria-label="Conditions">
        {["flowing", "idle", "stalled", "trouble", "paused"].map((one) => (
          <span key={one}>
            <span className={`dot ${one}`} aria-hidden="true" />
            {one}
          </span>
        ))}
      </p>
      <div className="scroll" tabIndex={0} role="region" aria-label="Graph">
        <svg className="graph" width={width} height={height} role="group" aria-label="From sources to sinks">
          {COLUMNS.map((title, index) => (
            <text key={title} className="title" x={index * (WIDTH + GAP_X)} y={14}>
              {title}
            </text>
          ))}
          {edges.map(([from, to]) => {
            const a = places.get(from);
            const b = places.get(to);
            if (!a || !b) return null;
            const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
            const middle = (x1 + x2) / 2;
            return (
              <path
                key={`${from}>${to}`}
                className="edge"
                d={`M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`}
              />
            );
          })}
          {columns.flat().map((node) => {
            const place = places.get(node.id);
            return place ? <Box key={node.id} node={node} {...place} /> : null;
          })}
        </svg>
      </div>
      {hidden > 0 && <p className="muted">and {hidden} more parts: see Streams and Connectors</p>}
    </>
  );
}

function Box({ node, x, y }: { node: Node; x: number; y: number }) {
  return (
    <g className={`node ${node.condition}`} transform={`translate(${x} ${y})`}>
      <rect width={WIDTH} height={HEIGHT} rx={6} />
      <rect className="edge-mark" width={4} height={HEIGHT} rx={2} />
      <foreignObject x={12} y={5} width={WIDTH - 18} height={HEIGHT - 8}>
        <div className="box">
          <span className="name" title={node.name}>
            <PartLink part={node.part} />
          </span>
          <span className="facts">
            {node.condition} · {node.facts.join(" · ")}
          </span>
        </div>
      </foreignObject>
    </g>
  );
}
