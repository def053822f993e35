/** Places the boxes of one scope, without anything of a browser: it runs in the worker.
 *
 * Layers come from dagre, 49 kB; ELK (layered) is 1.6 MB, which every page would carry. On chains with residual edges
 * both draw equally wide up to 100 boxes, ELK less wide where more edges run past them; on Inception's modules dagre is
 * the less wide one. Up to 300 boxes dagre took at most half of ELK's time, at 1,000 no less than ELK, and long chains
 * end its stack. So a scope is cut first where all paths run through one box: between such boxes lie few others, and
 * expanding one of them leaves the other pieces as they were, out of the cache.
 */

import { Graph, layout } from "@dagrejs/dagre";
import { wrapped } from "./columns.ts";
import { quick } from "./quick.ts";
import { backward, components, pieces } from "./pieces.ts";

/** Vertices are numbered: first the `ins`, then boxes, last the `outs`: where edges cross the border of the scope. */
export interface Problem {
  id: number;
  widths: number[];
  heights: number[];
  /** For each vertex the problem whose result is its size, or -1. */
  inner: number[];
  ins: number;
  outs: number;
  /** Pairs of vertices, flat. */
  edges: number[];
  /** Room for its title. */
  header: number;
  padding: number;
  /** Width that its own title needs. */
  least: number;
  /** It is drawn on its side: the title stands beside the layers, not before them. */
  across: boolean;
  /** From one layer to the next. */
  gap: number;
  /** Width of the window by its height: what is far taller is wrapped into columns; 0 for never. */
  shape: number;
}

export interface Placed {
  id: number;
  width: number;
  height: number;
  /** Middle of each vertex, from the left top corner of the scope. */
  x: number[];
  y: number[];
  /** For each edge the points between its ends, flat. */
  bends: number[][];
}

/** A part of a problem, placed from 0, 0. */
export interface Piece {
  width: number;
  height: number;
  x: number[];
  y: number[];
  bends: number[][];
}

export interface Boxes {
  widths: number[];
  heights: number[];
  edges: [number, number][];
  /** Vertices that must lie at the top, and at the bottom. */
  top: Set<number>;
  bottom: Set<number>;
  /** Vertices shared with the piece above and the piece below: nothing may lie beyond them. */
  head?: number | undefined;
  tail?: number | undefined;
  /** From one layer to the next. */
  gap: number;
}

export const GAP = 26;
/** Beyond this a piece is placed by simpler rules: dagre would take seconds, or end its stack. */
const LIMIT = 260;

/** Places problems, each after those inside it; the sizes of vertices with an inner one are filled in. */
export function solve(problems: Problem[], known: Map<number, { width: number; height: number }>): Placed[] {
  return problems.map((problem) => {
    problem.inner.forEach((id, vertex) => {
      const size = id < 0 ? undefined : known.get(id);
      if (size !== undefined) [problem.widths[vertex], problem.heights[vertex]] = [size.width, size.height];
    });
    const placed = place(problem);
    known.set(problem.id, placed);
    return placed;
  });
}

function place(problem: Problem): Placed {
  const total = problem.widths.length;
  const edges: [number, number][] = [];
  for (let i = 0; i < problem.edges.length; i += 2) edges.push([problem.edges[i]!, problem.edges[i + 1]!]);
  const x = new Array<number>(total).fill(0);
  const y = new Array<number>(total).fill(0);
  const bends: number[][] = edges.map(() => []);
  const groups = components(total, edges).sort((one, other) => other.vertices.length - one.vertices.length);
  const parts = groups.map((group) => component(problem, group, edges));
  const corners = packed(parts, problem.ins + problem.outs > 0);
  const { across, padding, least } = problem;
  const begin = across ? padding : problem.header;
  let [width, height] = [0, begin];
  const wide = Math.max(0, ...corners.map(({ left }, i) => left + parts[i]!.width));
  const indent = across ? problem.header : Math.max(padding, (least - wide) / 2);
  groups.forEach((group, number) => {
    const part = parts[number]!;
    const [left, top] = [corners[number]!.left + indent, corners[number]!.top + begin];
    group.vertices.forEach((vertex, i) => {
      x[vertex] = part.x[i]! + left;
      y[vertex] = part.y[i]! + top;
    });
    group.edges.forEach((edge, i) => (bends[edge] = shifted(part.bends[i]!, left, top)));
    width = Math.max(width, left + part.width);
    height = Math.max(height, top + part.height);
  });
  const size = across
    ? { width: width + padding, height: Math.max(height + padding, least) }
    : { width: Math.max(width + indent, least), height: height + padding };
  return { id: problem.id, ...size, x, y, bends };
}

function shifted(points: number[], left: number, top: number): number[] {
  return points.map((value, i) => value + (i % 2 === 0 ? left : top));
}

/** One connected part: its pieces below each other, joined at the boxes they share. */
function component(problem: Problem, group: { vertices: number[]; edges: number[] }, all: [number, number][]): Piece {
  const local = new Map(group.vertices.map((vertex, i) => [vertex, i]));
  const edges = group.edges.map((edge): [number, number] => [local.get(all[edge]![0])!, local.get(all[edge]![1])!]);
  const total = problem.widths.length;
  const boxes: Boxes = {
    widths: group.vertices.map((vertex) => problem.widths[vertex]!),
    heights: group.vertices.map((vertex) => problem.heights[vertex]!),
    edges,
    top: new Set(group.vertices.flatMap((vertex, i) => (vertex < problem.ins ? [i] : []))),
    bottom: new Set(group.vertices.flatMap((vertex, i) => (vertex >= total - problem.outs ? [i] : []))),
    gap: problem.gap,
  };
  return wrapped(forward(boxes), boxes, problem.shape, problem.across);
}

/** Lays a graph as if the edges that close a cycle led down: no piece then reaches above the box it begins with. */
function forward(boxes: Boxes): Piece {
  const back = backward(boxes);
  if (back.size === 0) return series(boxes);
  const piece = series({ ...boxes, edges: boxes.edges.map(([a, b], i): [number, number] => (back.has(i) ? [b, a] : [a, b])) });
  return { ...piece, bends: piece.bends.map((line, i) => (back.has(i) ? upward(line) : line)) };
}

/** The points of a line from its other end. */
function upward(line: number[]): number[] {
  return line.flatMap((_, i) => (i % 2 === 0 ? [line[line.length - 2 - i]!, line[line.length - 1 - i]!] : []));
}

function series(boxes: Boxes): Piece {
  const total = boxes.widths.length;
  const x = new Array<number>(total).fill(0);
  const y = new Array<number>(total).fill(0);
  const bends: number[][] = boxes.edges.map(() => []);
  let join: number | undefined;
  const found = pieces(boxes);
  const last = found[found.length - 1];
  for (const piece of found) {
    const local = new Map(piece.vertices.map((vertex, i) => [vertex, i]));
    const placed = cached({
      widths: piece.vertices.map((vertex) => boxes.widths[vertex]!),
      heights: piece.vertices.map((vertex) => boxes.heights[vertex]!),
      edges: piece.edges.map((edge) => [local.get(boxes.edges[edge]![0])!, local.get(boxes.edges[edge]![1])!]),
      top: new Set(piece.vertices.flatMap((vertex, i) => (boxes.top.has(vertex) ? [i] : []))),
      bottom: new Set(piece.vertices.flatMap((vertex, i) => (boxes.bottom.has(vertex) ? [i] : []))),
      head: join === undefined ? undefined : local.get(join),
      tail: piece === last ? undefined : local.get(piece.join),
      gap: boxes.gap,
    });
    const at = join === undefined ? -1 : local.get(join)!;
    const left = join === undefined ? 0 : x[join]! - placed.x[at]!;
    const top = join === undefined ? 0 : y[join]! - placed.y[at]!;
    piece.vertices.forEach((vertex, i) => {
      x[vertex] = placed.x[i]! + left;
      y[vertex] = placed.y[i]! + top;
    });
    piece.edges.forEach((edge, i) => (bends[edge] = shifted(placed.bends[i]!, left, top)));
    join = piece.join;
  }
  return fromOrigin({ width: 0, height: 0, x, y, bends }, boxes);
}

/** Moved so that its left top corner is at 0, 0, with its size. */
function fromOrigin(piece: Piece, boxes: Boxes): Piece {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const see = (x: number, y: number, w: number, h: number): void => {
    [left, right] = [Math.min(left, x - w / 2), Math.max(right, x + w / 2)];
    [top, bottom] = [Math.min(top, y - h / 2), Math.max(bottom, y + h / 2)];
  };
  piece.x.forEach((x, i) => see(x, piece.y[i]!, boxes.widths[i]!, boxes.heights[i]!));
  for (const line of piece.bends) for (let i = 0; i < line.length; i += 2) see(line[i]!, line[i + 1]!, 6, 0);
  return {
    width: right - left,
    height: bottom - top,
    x: piece.x.map((x) => x - left),
    y: piece.y.map((y) => y - top),
    bends: piece.bends.map((line) => shifted(line, -left, -top)),
  };
}

const CACHE = new Map<string, Piece>();

function cached(boxes: Boxes): Piece {
  if (boxes.widths.length === 2 && boxes.edges.length === 1) return pair(boxes);
  const key = JSON.stringify([boxes.widths, boxes.heights, boxes.edges, [...boxes.top], [...boxes.bottom], boxes.head, boxes.tail, boxes.gap]);
  let piece = CACHE.get(key);
  if (piece === undefined) {
    if (CACHE.size > 4000) CACHE.clear();
    CACHE.set(key, (piece = fromOrigin(layered(boxes), boxes)));
  }
  return piece;
}

/** A box below another: most pieces of a chain. */
function pair(boxes: Boxes): Piece {
  const [a, b] = boxes.edges[0]!;
  const y = [0, 0];
  y[b] = boxes.heights[a]! / 2 + gap(boxes, a, b) + boxes.heights[b]! / 2;
  return { width: 0, height: 0, x: [0, 0], y, bends: [[]] };
}

/** Where an edge crosses the border no room is needed for an arrow and a shape: both stand outside. */
function gap(boxes: Boxes, a: number, b: number): number {
  return boxes.top.has(a) || boxes.bottom.has(b) ? boxes.gap / 2 : boxes.gap;
}

function layered(boxes: Boxes): Piece {
  if (boxes.widths.length + boxes.edges.length / 3 > LIMIT) return quick(boxes);
  try {
    return byDagre(boxes);
  } catch {
    return quick(boxes); // a stack that ended: dagre recurses along paths
  }
}

function byDagre(boxes: Boxes): Piece {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP, edgesep: 14, ranksep: boxes.gap });
  boxes.widths.forEach((width, i) => graph.setNode(String(i), { width, height: boxes.heights[i]! }));
  boxes.edges.forEach(([a, b], i) => graph.setEdge(String(a), String(b), { weight: 1, minlen: 1 }, String(i)));
  pin(graph, boxes);
  layout(graph);
  const at = (i: number) => graph.node(String(i)) as { x: number; y: number; rank: number };
  const heights = new Map<number, number>();
  boxes.heights.forEach((height, i) => {
    const y = Math.round(at(i).y);
    heights.set(y, Math.max(heights.get(y) ?? 0, height));
  });
  const bends = boxes.edges.map(([a, b], i) => {
    const edge = graph.edge(String(a), String(b), String(i)) as { points?: { x: number; y: number }[] } | undefined;
    return (edge?.points ?? []).slice(1, -1).flatMap(({ x, y }, _, points) => {
      const height = heights.get(Math.round(y));
      if (height === undefined) return []; // halfway between two layers
      const up = points.length > 1 && points[points.length - 1]!.y < points[0]!.y;
      return up ? [x, y + height / 2, x, y - height / 2] : [x, y - height / 2, x, y + height / 2];
    });
  });
  const total = boxes.widths.map((_, i) => i);
  return { width: 0, height: 0, x: total.map((i) => at(i).x), y: total.map((i) => at(i).y), bends };
}

/** Holds the vertices of the border in the first and the last layer, by edges to a point above and below all. */
function pin(graph: Graph, boxes: Boxes): void {
  const [sources, sinks] = [new Set(boxes.widths.keys()), new Set(boxes.widths.keys())];
  for (const [a, b] of boxes.edges) {
    sources.delete(b);
    sinks.delete(a);
  }
  const hold = (name: string, pinned: Set<number>, others: Set<number>, edge: (i: string) => [string, string]): void => {
    if (pinned.size === 0) return;
    graph.setNode(name, { width: 1, height: 1 });
    for (const i of new Set([...pinned, ...others])) {
      graph.setEdge(...edge(String(i)), { weight: pinned.has(i) ? 60 : 0, minlen: 1 }, `${name}${i}`);
    }
  };
  for (const i of boxes.head === undefined ? [] : sources) {
    if (i !== boxes.head) graph.setEdge(String(boxes.head), String(i), { weight: 0, minlen: 1 }, `head${i}`);
  }
  for (const i of boxes.tail === undefined ? [] : sinks) {
    if (i !== boxes.tail) graph.setEdge(String(i), String(boxes.tail), { weight: 0, minlen: 1 }, `tail${i}`);
  }
  hold("top", boxes.top, sources, (i) => ["top", i]);
  hold("bottom", boxes.bottom, sinks, (i) => [i, "bottom"]);
}

/** Left top corners of parts that no edge joins: side by side, in rows of about the shape of a screen. */
function packed(parts: Piece[], oneRow: boolean): { left: number; top: number }[] {
  const area = parts.reduce((sum, part) => sum + (part.width + GAP) * (part.height + GAP), 0);
  const widest = Math.max(0, ...parts.map((part) => part.width));
  const room = oneRow ? Infinity : Math.max(widest, Math.sqrt(area) * 1.5);
  let [left, top, deepest] = [0, 0, 0];
  return parts.map((part) => {
    if (left > 0 && left + part.width > room) [left, top, deepest] = [0, top + deepest + GAP, 0];
    const corner = { left, top };
    left += part.width + GAP;
    deepest = Math.max(deepest, part.height);
    return corner;
  });
}
