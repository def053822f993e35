/** One scope as a graph of its own: its children, the edges among them, and where edges cross its border. */

import type { Item, Model } from "./model.ts";
import type { Switches } from "./state.ts";

/** An output of a node: what an edge carries. */
export type Tensor = number;

const PORTS = 4096;

export function tensor(node: number, port: number): Tensor {
  return node * PORTS + Math.min(port, PORTS - 2) + 1;
}

export function source(key: Tensor): { node: number; port: number } {
  return { node: Math.floor(key / PORTS), port: (key % PORTS) - 1 };
}

/** Vertices: first the `ins`, then the items, last the `outs`. */
export interface ScopeGraph {
  items: Item[];
  ins: Tensor[][];
  outs: Tensor[][];
  edges: ScopeEdge[];
  /** Children that are not drawn, as there are too many. */
  left: number;
}

export interface ScopeEdge {
  a: number;
  b: number;
  tensors: Tensor[];
  /** Only control edges. */
  control: boolean;
}

/** Distinct tensors that cross a border at places of their own; more share one. */
const CROSSINGS = 4;
/** Children drawn at once; the reader may ask for more. */
export const AT_ONCE = 600;

export class Visible {
  private readonly cache = new Map<Item, ScopeGraph>();
  private readonly hidden: Uint8Array;
  /** Names of attributes that stand on boxes. */
  readonly attributes: RegExp | undefined;
  private readonly limits = new Map<Item, number>();

  constructor(
    readonly model: Model,
    private readonly switches: Switches,
  ) {
    this.hidden = this.findHidden();
    this.attributes = switches.attributes === "" ? undefined : new RegExp(switches.attributes, "iu");
  }

  /** Whether it is drawn from left to right. */
  get across(): boolean {
    return this.switches.across;
  }

  /** Whether a switch hides the item: a folded constant, a scope with nothing else. */
  isHidden(item: Item): boolean {
    return this.hidden[item] === 1;
  }

  /** Draws more children of a scope. */
  more(scope: Item): void {
    this.limits.set(scope, (this.limits.get(scope) ?? AT_ONCE) + AT_ONCE);
    this.cache.clear();
  }

  /** Draws as many children as are needed to see one of them. */
  reach(scope: Item, child: Item): void {
    const place = this.shown(scope).indexOf(child);
    while (place >= (this.limits.get(scope) ?? AT_ONCE)) this.more(scope);
  }

  /** Children that no switch hides. */
  shown(scope: Item): Item[] {
    return this.model.childrenOf(scope).filter((item) => this.hidden[item] === 0);
  }

  graph(scope: Item): ScopeGraph {
    let found = this.cache.get(scope);
    if (found === undefined) this.cache.set(scope, (found = this.build(scope)));
    return found;
  }

  private findHidden(): Uint8Array {
    const { model } = this;
    const hidden = new Uint8Array(model.size + model.scopes);
    if (this.switches.constants) return hidden;
    hidden.set(model.stored);
    for (let scope = model.size; scope < hidden.length; scope++) {
      if (scope !== model.root && model.nodesOf(scope).every((node) => hidden[node] === 1)) hidden[scope] = 1;
    }
    return hidden;
  }

  private build(scope: Item): ScopeGraph {
    const all = this.shown(scope);
    const items = all.slice(0, this.limits.get(scope) ?? AT_ONCE);
    const found = new Crossing(this.model, items, this.hidden, this.switches.control);
    return { ...found.result(scope === this.model.root), items, left: all.length - items.length };
  }
}

/** Gathers the edges of one scope. */
class Crossing {
  private readonly owner: Map<number, number> = new Map();
  private readonly among = new Map<number, { tensors: Set<Tensor>; control: boolean }>();
  private readonly into = new Map<Tensor, Set<number>>();
  private readonly outOf = new Map<Tensor, Set<number>>();

  constructor(
    private readonly model: Model,
    private readonly items: Item[],
    private readonly hidden: Uint8Array,
    private readonly control: boolean,
  ) {
    items.forEach((item, i) => model.nodesOf(item).forEach((node) => this.owner.set(node, i)));
    const { edges } = model.graph;
    items.forEach((item, i) => {
      for (const node of model.nodesOf(item)) {
        if (hidden[node] === 1) continue;
        for (const edge of model.edgesOutOf(node)) this.add(i, this.owner.get(edges.to[edge]!), edge);
        for (const edge of model.edgesInto(node)) {
          if (!this.owner.has(edges.from[edge]!)) this.add(undefined, i, edge);
        }
      }
    });
  }

  private add(a: number | undefined, b: number | undefined, edge: number): void {
    const { from, to, port } = this.model.graph.edges;
    if (this.hidden[from[edge]!] === 1 || this.hidden[to[edge]!] === 1 || a === b) return;
    if (port[edge]! < 0 && !this.control) return;
    const key = tensor(from[edge]!, port[edge]!);
    if (a === undefined) put(this.into, key, b!);
    else if (b === undefined) put(this.outOf, key, a);
    else {
      const place = a * this.items.length + b;
      const found = this.among.get(place) ?? { tensors: new Set<Tensor>(), control: true };
      found.tensors.add(key);
      found.control &&= port[edge]! < 0;
      this.among.set(place, found);
    }
  }

  result(isRoot: boolean): { ins: Tensor[][]; outs: Tensor[][]; edges: ScopeEdge[] } {
    const total = this.items.length;
    const ins = isRoot ? [] : grouped(this.into);
    const outs = isRoot ? [] : grouped(this.outOf);
    const edges: ScopeEdge[] = [];
    for (const [place, { tensors, control }] of this.among) {
      const [a, b] = [Math.floor(place / total), place % total];
      edges.push({ a: ins.length + a, b: ins.length + b, tensors: [...tensors], control });
    }
    const cross = (groups: Tensor[][], ends: Map<Tensor, Set<number>>, edge: (port: number, item: number) => [number, number]): void => {
      groups.forEach((tensors, port) => {
        const byItem = new Map<number, Tensor[]>();
        for (const key of tensors) for (const item of ends.get(key)!) byItem.set(item, [...(byItem.get(item) ?? []), key]);
        for (const [item, keys] of byItem) {
          const [a, b] = edge(port, ins.length + item);
          edges.push({ a, b, tensors: keys, control: keys.every((key) => source(key).port < 0) });
        }
      });
    };
    cross(ins, this.into, (port, item) => [port, item]);
    cross(outs, this.outOf, (port, item) => [item, ins.length + total + port]);
    return { ins, outs, edges };
  }
}

function put(map: Map<Tensor, Set<number>>, key: Tensor, value: number): void {
  const found = map.get(key);
  if (found === undefined) map.set(key, new Set([value]));
  else found.add(value);
}

function grouped(ends: Map<Tensor, Set<number>>): Tensor[][] {
  const keys = [...ends.keys()];
  return keys.length > CROSSINGS ? [keys] : keys.map((key) => [key]);
}
