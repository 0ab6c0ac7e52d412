/** Where the nodes of the graph are drawn: in layers from the left to the right, with few crossings. */

import { Graph, layout as arrange } from "@dagrejs/dagre";

export interface Box {
  id: string;
  /** The layer, from 0. */
  layer: number;
  width: number;
  height: number;
}

export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  places: Map<string, Place>;
  width: number;
  height: number;
}

const GAP_X = 64;
const GAP_Y = 12;
const ROOT = " root";

/** Returns the places of boxes. A layer without boxes takes no room, and each box is in its layer, joined or not. */
export function layout(boxes: Box[], edges: [from: string, to: string][]): Layout {
  const used = [...new Set(boxes.map((box) => box.layer))].sort((a, b) => a - b);
  const layerOf = new Map(boxes.map((box) => [box.id, used.indexOf(box.layer)]));
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: GAP_Y, ranksep: GAP_X, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  graph.setNode(ROOT, { width: 0, height: 0 });
  for (const { id, width, height } of boxes) {
    graph.setNode(id, { width, height });
    graph.setEdge(ROOT, id, { minlen: 1 + (layerOf.get(id) ?? 0), weight: 0.01 });
  }
  for (const [from, to] of edges) {
    const length = (layerOf.get(to) ?? 0) - (layerOf.get(from) ?? 0);
    if (length > 0) graph.setEdge(from, to, { minlen: length, weight: 4 });
  }
  arrange(graph);
  const centres = boxes.map((box) => ({ box, at: graph.node(box.id) as { x: number; y: number } }));
  const left = Math.min(...centres.map(({ box, at }) => at.x - box.width / 2));
  const top = Math.min(...centres.map(({ box, at }) => at.y - box.height / 2));
  const places = new Map(
    centres.map(({ box, at }): [string, Place] => [
      box.id,
      { x: at.x - box.width / 2 - left, y: at.y - box.height / 2 - top, width: box.width, height: box.height },
    ]),
  );
  const all = [...places.values()];
  return {
    places,
    width: Math.max(0, ...all.map((one) => one.x + one.width)),
    height: Math.max(0, ...all.map((one) => one.y + one.height)),
  };
}
