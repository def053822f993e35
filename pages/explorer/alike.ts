/** Scopes that hold the same ops in the same order: copies of one layer. */

import type { Item, Model } from "./model.ts";

const made = new WeakMap<Model, Map<string, Item[]>>();
/** Nodes of a scope that says something when another is like it. */
const LEAST = 2;

/** The other scopes like this one, in running order. */
export function alike(model: Model, scope: Item): Item[] {
  let groups = made.get(model);
  if (groups === undefined) {
    made.set(model, (groups = new Map()));
    for (let at = model.size; at < model.size + model.scopes; at++) {
      const key = keyOf(model, at);
      if (key === "") continue;
      const found = groups.get(key);
      if (found === undefined) groups.set(key, [at]);
      else found.push(at);
    }
  }
  return (groups.get(keyOf(model, scope)) ?? []).filter((other) => other !== scope);
}

function keyOf(model: Model, scope: Item): string {
  const ops = [...model.nodesOf(scope)].filter((node) => model.stored[node] === 0).map((node) => model.graph.nodes.op[node]!);
  return ops.length < LEAST ? "" : ops.join(" ");
}
