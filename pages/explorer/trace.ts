/** Everything that leads to an item, and everything that follows from it. */

import type { Item, Model } from "./model.ts";
import type { Link } from "./scene.ts";
import { source } from "./visible.ts";

/** Sets of nodes; the item's own are in neither. */
export interface Trace {
  before: Set<number>;
  after: Set<number>;
}

/** By values; by control edges too, if those are drawn. */
export function traced(model: Model, item: Item, control: boolean): Trace {
  const own = new Set<number>(model.nodesOf(item));
  const { from, to, port } = model.graph.edges;
  const reach = (edgesOf: (node: number) => Int32Array, ends: number[]): Set<number> => {
    const found = new Set<number>();
    const open = [...own];
    while (open.length > 0) {
      for (const edge of edgesOf(open.pop()!)) {
        const other = ends[edge]!;
        if (own.has(other) || found.has(other) || (port[edge]! < 0 && !control)) continue;
        found.add(other);
        open.push(other);
      }
    }
    return found;
  };
  return { before: reach((node) => model.edgesInto(node), from), after: reach((node) => model.edgesOutOf(node), to) };
}

/** Nodes that compute something: without constants, and without the boxes of outputs. */
export function counted(model: Model, nodes: Set<number>): number {
  let found = 0;
  for (const node of nodes) if (model.stored[node] === 0) found++;
  return found;
}

/** Whether a value of one of the sources goes to one of the readers along a line. */
export function carries(model: Model, link: Link, sources: ReadonlySet<number>, readers: ReadonlySet<number>): boolean {
  const { to, port } = model.graph.edges;
  const leaves = model.holds(link.to, link.from); // over the border of link.to
  return link.tensors.some((key) => {
    const made = source(key);
    if (!sources.has(made.node)) return false;
    const edges = model.edgesOutOf(made.node);
    return edges.some((edge) => port[edge] === made.port && readers.has(to[edge]!) && model.holds(link.to, to[edge]!) !== leaves);
  });
}
