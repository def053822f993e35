/** A graph of the document with its indexes: children, neighbours, what is folded away.
 *
 * An item is a node (its index) or a scope (its index after those of all nodes): one number for either.
 */

import { type Constant, type Document, type Graph, NodeKind } from "./schema.ts";
import { clean, lastPart } from "./text.ts";

export type Item = number;

/** Neighbours of each node as edges: those of node i are `edges[start[i] .. start[i + 1]]`. */
interface Adjacency {
  start: Int32Array;
  edges: Int32Array;
}

export class Model {
  /** How many nodes; items from here on are scopes. */
  readonly size: number;
  readonly scopes: number;
  readonly root: Item;
  /** Nodes and scopes in each scope, in the order of their first node. */
  readonly children: Item[][];
  /** Constants, and what only passes one on: shown inside their consumers. */
  readonly stored: Uint8Array;
  readonly constants: Map<number, Constant>;
  private readonly into: Adjacency;
  private readonly outOf: Adjacency;
  /** Nodes by scope, depth first: those below scope s are `order[first[s] .. last[s]]`. */
  private readonly order: Int32Array;
  private readonly first: Int32Array;
  private readonly last: Int32Array;

  constructor(
    readonly document: Document,
    readonly graph: Graph,
  ) {
    const { nodes, edges, scopes } = graph;
    this.size = nodes.name.length;
    this.scopes = scopes.name.length;
    this.root = this.size;
    this.into = adjacency(this.size, edges.to);
    this.outOf = adjacency(this.size, edges.from);
    this.constants = new Map(graph.constants.map((constant) => [constant.node, constant]));
    this.children = this.familyTree();
    this.stored = this.findStored();
    this.order = new Int32Array(this.size);
    this.first = new Int32Array(this.scopes);
    this.last = new Int32Array(this.scopes);
    this.number();
  }

  text(index: number | undefined): string {
    return index === undefined ? "" : (this.document.strings[index] ?? "");
  }

  isScope(item: Item): boolean {
    return item >= this.size;
  }

  scopeItem(scope: number): Item {
    return this.size + scope;
  }

  /** The scope that holds an item, as an item; -1 for the root. */
  parent(item: Item): Item {
    const scope = item < this.size ? this.graph.nodes.scope[item]! : this.graph.scopes.parent[item - this.size]!;
    return scope < 0 ? -1 : this.size + scope;
  }

  childrenOf(scope: Item): Item[] {
    return this.children[scope - this.size] ?? [];
  }

  /** Scopes around an item, the root first. */
  around(item: Item): Item[] {
    const found: Item[] = [];
    for (let scope = this.parent(item); scope >= 0; scope = this.parent(scope)) found.push(scope);
    return found.reverse();
  }

  holds(scope: Item, item: Item): boolean {
    for (let at = item; at >= 0; at = this.parent(at)) if (at === scope) return true;
    return false;
  }

  /** All nodes of a scope and of those below it; of a node, itself. */
  nodesOf(item: Item): Int32Array {
    if (!this.isScope(item)) return Int32Array.of(item);
    const scope = item - this.size;
    return this.order.subarray(this.first[scope]!, this.last[scope]!);
  }

  /** Full name: of a scope, the names around it, too. */
  name(item: Item): string {
    if (!this.isScope(item)) return this.text(this.graph.nodes.name[item]);
    const parts = [...this.around(item).slice(1), item].map((scope) => this.scopeName(scope));
    return item === this.root ? "" : parts.join("/");
  }

  /** What stands on its box, fit to be shown. */
  label(item: Item): string {
    return clean(this.isScope(item) ? this.scopeName(item) || "(root)" : lastPart(this.name(item)));
  }

  private scopeName(scope: Item): string {
    return this.text(this.graph.scopes.name[scope - this.size]);
  }

  op(node: number): string {
    return this.text(this.graph.nodes.op[node]);
  }

  kind(node: number): NodeKind {
    return this.graph.nodes.kind[node]!;
  }

  /** dtype and shape of each output, as written. */
  outputs(node: number): { dtype: string; shape: string }[] {
    const flat = this.graph.nodes.outputs[node] ?? [];
    const found = [];
    for (let i = 0; i + 1 < flat.length; i += 2) found.push({ dtype: this.text(flat[i]), shape: this.text(flat[i + 1]) });
    return found;
  }

  attributes(node: number): [string, string][] {
    const flat = this.graph.nodes.attributes[node] ?? [];
    const found: [string, string][] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) found.push([this.text(flat[i]), this.text(flat[i + 1])]);
    return found;
  }

  quantization(node: number): string[] {
    return (this.graph.nodes.quantization?.[node] ?? []).map((text) => this.text(text));
  }

  /** What an input of a node is for, as "filter"; "" where it is not known. */
  role(node: number, input: number): string {
    const { rolesOfNode, roles, op } = this.graph.nodes;
    return input < 0 ? "" : this.text((rolesOfNode?.[node] ?? roles?.[op[node]!])?.[input]);
  }

  /** Edges into a node, by input, control edges last. */
  inputs(node: number): number[] {
    const { input, port } = this.graph.edges;
    const rank = (edge: number) => (port[edge]! < 0 ? 1e9 : input[edge]!);
    return [...slice(this.into, node)].sort((a, b) => rank(a) - rank(b));
  }

  /** Edges out of a node, by output. */
  consumers(node: number): number[] {
    return [...slice(this.outOf, node)].sort((a, b) => this.graph.edges.port[a]! - this.graph.edges.port[b]!);
  }

  edgesOutOf(node: number): Int32Array {
    return slice(this.outOf, node);
  }

  edgesInto(node: number): Int32Array {
    return slice(this.into, node);
  }

  /** Follows what only passes a constant on back to the constant itself. */
  origin(node: number): number {
    let at = node;
    for (let steps = 0; steps < 64; steps++) {
      const edge = slice(this.into, at).find((e) => this.graph.edges.port[e]! >= 0);
      if (edge === undefined || this.stored[at] === 0) break;
      at = this.graph.edges.from[edge]!;
    }
    return at;
  }

  private familyTree(): Item[][] {
    const children: Item[][] = Array.from({ length: this.scopes }, () => []);
    const placed = new Uint8Array(this.scopes);
    const place = (item: Item): void => {
      for (let at = item, scope = this.parent(at); scope >= 0; at = scope, scope = this.parent(at)) {
        children[scope - this.size]!.push(at);
        if (placed[scope - this.size] === 1) return;
        placed[scope - this.size] = 1;
      }
    };
    for (let node = 0; node < this.size; node++) place(node);
    return children;
  }

  /** Constants and variables, and a node with one input that is one of them: TensorFlow's reads, a Dequantize. */
  private findStored(): Uint8Array {
    const stored = new Uint8Array(this.size);
    const { from, port } = this.graph.edges;
    for (let node = 0; node < this.size; node++) {
      const kind = this.kind(node);
      if (kind === NodeKind.Constant || kind === NodeKind.Variable) stored[node] = 1;
      if (kind !== NodeKind.Op || slice(this.outOf, node).length === 0) continue;
      const data = slice(this.into, node).filter((edge) => port[edge]! >= 0);
      if (data.length === 1 && stored[from[data[0]!]!] === 1) stored[node] = 1;
    }
    return stored;
  }

  private number(): void {
    let place = 0;
    const stack: [Item, number][] = this.scopes > 0 ? [[this.root, 0]] : [];
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      const scope = top[0] - this.size;
      if (top[1] === 0) this.first[scope] = place;
      const child = this.children[scope]![top[1]++];
      if (child === undefined) {
        this.last[scope] = place;
        stack.pop();
      } else if (this.isScope(child)) stack.push([child, 0]);
      else this.order[place++] = child;
    }
  }
}

function adjacency(size: number, ends: number[]): Adjacency {
  const start = new Int32Array(size + 1);
  for (const node of ends) start[node + 1]!++;
  for (let node = 0; node < size; node++) start[node + 1]! += start[node]!;
  const next = start.slice(0, size);
  const edges = new Int32Array(ends.length);
  ends.forEach((node, edge) => (edges[next[node]!++] = edge));
  return { start, edges };
}

function slice(found: Adjacency, node: number): Int32Array {
  return found.edges.subarray(found.start[node]!, found.start[node + 1]!);
}
