/** Cuts a graph where its paths run together. */

import type { Boxes } from "./layers.ts";

/** Vertices and edges between two boxes that all paths share; `join` is the one shared with the next piece. */
export interface Cut {
  vertices: number[];
  edges: number[];
  join: number;
}

/** Parts that no edge joins, each with its vertices and edges. */
export function components(total: number, edges: [number, number][]): { vertices: number[]; edges: number[] }[] {
  const leader = Int32Array.from({ length: total }, (_, i) => i);
  const find = (v: number): number => {
    while (leader[v] !== v) v = leader[v] = leader[leader[v]!]!;
    return v;
  };
  for (const [a, b] of edges) leader[find(a)] = find(b);
  const groups = new Map<number, { vertices: number[]; edges: number[] }>();
  for (let v = 0; v < total; v++) {
    const found = groups.get(find(v)) ?? { vertices: [], edges: [] };
    found.vertices.push(v);
    groups.set(find(v), found);
  }
  edges.forEach(([a], i) => groups.get(find(a))!.edges.push(i));
  return [...groups.values()];
}

/** Pieces of a connected graph in their order from top to bottom. */
export function pieces(boxes: Boxes): Cut[] {
  const order = running(boxes);
  const place = new Int32Array(order.length);
  order.forEach((vertex, i) => (place[vertex] = i));
  // How many edges pass over each place: where none does, all paths run through the vertex.
  const change = new Int32Array(order.length + 2);
  boxes.edges.forEach(([a, b]) => {
    const [low, high] = [Math.min(place[a]!, place[b]!), Math.max(place[a]!, place[b]!)];
    if (high - low > 1) {
      change[low + 1]!++;
      change[high]!--;
    }
  });
  const found: Cut[] = [];
  const byPiece = new Int32Array(order.length);
  let [start, over] = [0, 0];
  for (let i = 0; i < order.length; i++) {
    over += change[i]!;
    byPiece[i] = found.length;
    if (i === order.length - 1 || (i > start && over === 0)) {
      found.push({ vertices: order.slice(start, i + 1), edges: [], join: order[i]! });
      start = i;
    }
  }
  boxes.edges.forEach(([a, b], i) => found[byPiece[Math.max(place[a]!, place[b]!)]!]!.edges.push(i));
  return found;
}

/** Edges that close cycles: of those inside a cycle, the ones against the order of the vertices, in which they run. */
export function backward(boxes: Boxes): Set<number> {
  const place = new Int32Array(boxes.widths.length);
  running(boxes).forEach((vertex, i) => (place[vertex] = i));
  if (boxes.edges.every(([a, b]) => place[a]! <= place[b]!)) return new Set();
  const cycle = cycles(boxes.widths.length, boxes.edges);
  return new Set(boxes.edges.flatMap(([a, b], i) => (a > b && cycle[a] === cycle[b] ? [i] : [])));
}

/** For each vertex the number of its strongly connected component (Tarjan). */
function cycles(total: number, edges: [number, number][]): Int32Array {
  const after: number[][] = Array.from({ length: total }, () => []);
  for (const [a, b] of edges) after[a]!.push(b);
  const [found, index, low] = [new Int32Array(total).fill(-1), new Int32Array(total).fill(-1), new Int32Array(total)];
  const [open, way]: [number[], [number, number][]] = [[], []];
  let [count, numbers] = [0, 0];
  for (let root = 0; root < total; root++) {
    if (index[root] === -1) way.push([root, 0]);
    while (way.length > 0) {
      const top = way[way.length - 1]!;
      const [v, next] = top;
      if (next === 0) {
        index[v] = low[v] = count++;
        open.push(v);
      }
      const w = after[v]![top[1]++];
      if (w !== undefined) {
        if (index[w] === -1) way.push([w, 0]);
        else if (found[w] === -1) low[v] = Math.min(low[v]!, index[w]!);
        continue;
      }
      way.pop();
      const above = way[way.length - 1]?.[0];
      if (above !== undefined) low[above] = Math.min(low[above]!, low[v]!);
      if (low[v] !== index[v]) continue;
      for (let last = -1; last !== v; ) found[(last = open.pop()!)] = numbers;
      numbers++;
    }
  }
  return found;
}

/** Vertices in running order, depth first from the ends: what is used late comes late, so fewer edges pass over. */
function running(boxes: Boxes): number[] {
  const total = boxes.widths.length;
  const before: number[][] = Array.from({ length: total }, () => []);
  const ends = new Set(boxes.widths.keys());
  for (const [a, b] of boxes.edges) {
    before[b]!.push(a);
    ends.delete(a);
  }
  const order = [...boxes.top];
  const seen = new Uint8Array(total);
  for (const v of [...boxes.top, ...boxes.bottom]) seen[v] = 1;
  const visit = (start: number): void => {
    const stack: [number, number][] = [[start, 0]];
    seen[start] = 1;
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      const next = before[top[0]]![top[1]++];
      if (next === undefined) order.push(stack.pop()![0]);
      else if (seen[next] === 0) {
        seen[next] = 1;
        stack.push([next, 0]);
      }
    }
  };
  for (const v of [...ends, ...[...boxes.bottom].flatMap((out) => before[out]!)]) if (seen[v] === 0) visit(v);
  for (let v = 0; v < total; v++) if (seen[v] === 0) visit(v);
  order.push(...boxes.bottom);
  return order;
}
