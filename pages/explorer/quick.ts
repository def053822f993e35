/** Layers by simple rules, for what is too large for the library: linear in time, any depth, cycles too. */

import { type Boxes, GAP, type Piece } from "./layers.ts";

const SWEEPS = 4;

export function quick(boxes: Boxes): Piece {
  const rank = ranks(boxes);
  const layers: number[][] = [];
  rank.forEach((layer, vertex) => (layers[layer] ??= []).push(vertex));
  const near: number[][] = boxes.widths.map(() => []);
  for (const [a, b] of boxes.edges) {
    near[a]!.push(b);
    near[b]!.push(a);
  }
  const x = new Array<number>(boxes.widths.length).fill(0);
  for (const layer of layers) spread(layer ?? [], boxes, x);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const wish = new Map((layer ?? []).map((vertex) => [vertex, mean(near[vertex]!, x) ?? x[vertex]!]));
      layer?.sort((a, b) => wish.get(a)! - wish.get(b)!);
      spread(layer ?? [], boxes, x, wish);
    }
  }
  const y = new Array<number>(boxes.widths.length).fill(0);
  let top = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...(layer ?? []).map((vertex) => boxes.heights[vertex]!));
    for (const vertex of layer ?? []) y[vertex] = top + height / 2;
    top += height + boxes.gap;
  }
  return { width: 0, height: 0, x, y, bends: boxes.edges.map(() => []) };
}

/** Length of the longest path to each vertex; edges that close a cycle do not count. */
function ranks(boxes: Boxes): number[] {
  const total = boxes.widths.length;
  const after: number[][] = Array.from({ length: total }, () => []);
  const waiting = new Int32Array(total);
  for (const [a, b] of boxes.edges) {
    after[a]!.push(b);
    waiting[b]!++;
  }
  const rank = new Array<number>(total).fill(0);
  const done = new Uint8Array(total);
  const ready = [...boxes.widths.keys()].filter((v) => waiting[v] === 0);
  let next = 0;
  for (let count = 0; count < total; ) {
    let v = ready.shift();
    if (v === undefined) {
      while (done[next] === 1) next++; // in a cycle: the first of it starts
      v = next;
    }
    if (done[v] === 1) continue;
    done[v] = 1;
    count++;
    for (const w of after[v]!) {
      if (done[w] === 1) continue;
      rank[w] = Math.max(rank[w]!, rank[v]! + 1);
      if (--waiting[w]! === 0) ready.push(w);
    }
  }
  return rank;
}

function mean(vertices: number[], x: number[]): number | undefined {
  if (vertices.length === 0) return undefined;
  return vertices.reduce((sum, vertex) => sum + x[vertex]!, 0) / vertices.length;
}

/** A layer side by side around its middle, or around where its vertices wish to be. */
function spread(layer: number[], boxes: Boxes, x: number[], wish?: Map<number, number>): void {
  let at = 0;
  const places = layer.map((vertex) => {
    const middle = at + boxes.widths[vertex]! / 2;
    at += boxes.widths[vertex]! + GAP;
    return middle;
  });
  const off = layer.map((vertex, i) => (wish?.get(vertex) ?? at / 2) - places[i]!);
  const shift = wish === undefined ? -(at - GAP) / 2 : off.reduce((sum, value) => sum + value, 0) / (layer.length || 1);
  layer.forEach((vertex, i) => (x[vertex] = places[i]! + shift));
}
