/** Two graphs compared: which items belong together, and where they differ. */

import type { Item, Model } from "./model.ts";
import type { Comparison } from "./schema.ts";

export type Mark = "same" | "changed" | "only";

export interface Difference {
  mark: Mark;
  /** In graph 0 and in graph 1. */
  items: [Item | undefined, Item | undefined];
  /** In which way they differ, one line each. */
  lines: string[];
}

export class Twins {
  readonly differences: Difference[] = [];
  private readonly twins: [Int32Array, Int32Array];
  /** By node: its pair's number. */
  private readonly pairs: [Int32Array, Int32Array];
  private readonly scopes: [Map<Item, Item>, Map<Item, Item>];

  constructor(
    readonly models: [Model, Model],
    private readonly comparison: Comparison,
  ) {
    const empty = (model: Model) => new Int32Array(model.size).fill(-1);
    this.twins = [empty(models[0]), empty(models[1])];
    this.pairs = [empty(models[0]), empty(models[1])];
    const { pairs } = comparison;
    for (let i = 0; i + 1 < pairs.length; i += 2) {
      const [a, b] = [pairs[i]!, pairs[i + 1]!];
      this.twins[0][a] = b;
      this.twins[1][b] = a;
      this.pairs[0][a] = this.pairs[1][b] = i / 2;
    }
    this.scopes = [this.scopeTwins(0), this.scopeTwins(1)];
    this.list();
  }

  twin(graph: number, item: Item): Item | undefined {
    const model = this.models[graph]!;
    if (model.isScope(item)) return this.scopes[graph]!.get(item);
    const found = this.twins[graph]![item]!;
    return found < 0 ? undefined : found;
  }

  mark(graph: number, item: Item): Mark {
    const model = this.models[graph]!;
    if (!model.isScope(item)) {
      const pair = this.pairs[graph]![item]!;
      if (pair >= 0) return this.comparison.differs[pair] ? "changed" : "same";
      const reader = this.reader(graph, item);
      return reader === undefined ? "only" : this.mark(graph, reader);
    }
    let [same, only] = [true, true];
    for (const node of model.nodesOf(item)) {
      const mark = this.mark(graph, node);
      same &&= mark === "same";
      only &&= mark === "only";
    }
    return same ? "same" : only ? "only" : "changed";
  }

  /** What reads a constant: the constant is a part of it. */
  private reader(graph: number, node: Item): Item | undefined {
    const model = this.models[graph]!;
    if (model.stored[node] === 0) return undefined;
    const edge = model.edgesOutOf(node)[0];
    return edge === undefined ? undefined : model.graph.edges.to[edge];
  }

  lines(graph: number, node: Item): string[] {
    const pair = this.models[graph]!.isScope(node) ? -1 : this.pairs[graph]![node]!;
    return (this.comparison.differences[pair] ?? []).map((text) => this.models[0].text(text));
  }

  /** Scopes of the same name; else the scope in which most twins of its nodes lie. */
  private scopeTwins(graph: 0 | 1): Map<Item, Item> {
    const [model, other] = [this.models[graph], this.models[1 - graph]!];
    const byName = new Map<string, Item>();
    for (let scope = other.size; scope < other.size + other.scopes; scope++) byName.set(other.name(scope), scope);
    const found = new Map<Item, Item>();
    for (let scope = model.size; scope < model.size + model.scopes; scope++) {
      const twin = byName.get(model.name(scope)) ?? this.mostly(graph, scope, other);
      if (twin !== undefined) found.set(scope, twin);
    }
    found.set(model.root, other.root);
    return found;
  }

  private mostly(graph: 0 | 1, scope: Item, other: Model): Item | undefined {
    const votes = new Map<Item, number>();
    for (const node of this.models[graph].nodesOf(scope)) {
      const twin = this.twins[graph][node]!;
      if (twin < 0) continue;
      const home = other.parent(twin);
      votes.set(home, (votes.get(home) ?? 0) + 1);
    }
    const best = [...votes].sort((a, b) => b[1] - a[1])[0]?.[0];
    return best === other.root ? undefined : best;
  }

  /** Of pairs that have an item and what is said first in common, one name. */
  private groups(): (pair: number) => string {
    const { pairs, differs, differences } = this.comparison;
    const above = new Map<string, string>();
    const top = (key: string): string => {
      let at = key;
      while (above.has(at)) at = above.get(at)!;
      return at;
    };
    const keys = (i: number) => [0, 1].map((side) => top(`${side} ${pairs[2 * i + side]!} ${differences[i]?.[0] ?? `pair ${i}`}`)) as [string, string];
    differs.forEach((differ, i) => {
      const [a, b] = keys(i);
      if (differ && a !== b) above.set(b, a);
    });
    return (i) => keys(i)[0];
  }

  private list(): void {
    const { pairs, differs, differences } = this.comparison;
    // Operators that became one are one difference, told at the first of them.
    const told = new Set<string>();
    const leader = this.groups();
    const add = (kind: number) => {
      differs.forEach((differ, i) => {
        if (differ !== kind) return;
        const items: [Item, Item] = [pairs[2 * i]!, pairs[2 * i + 1]!];
        if (kind === 2 && this.reader(0, items[0]) !== undefined) return;
        const group = leader(i);
        const isTold = told.has(group);
        told.add(group);
        const lines = (differences[i] ?? []).map((text) => this.models[0].text(text));
        if (!isTold) this.differences.push({ mark: "changed", items, lines });
      });
    };
    const lacking = (graph: 0 | 1) => {
      this.twins[graph].forEach((twin, node) => {
        if (twin >= 0 || this.reader(graph, node) !== undefined) return;
        this.differences.push({ mark: "only", items: graph === 0 ? [node, undefined] : [undefined, node], lines: [] });
      });
    };
    add(1);
    lacking(0);
    lacking(1);
    add(2);
  }
}
