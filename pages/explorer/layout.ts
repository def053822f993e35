/** Asks the worker to place what is visible: each expanded scope by itself, from the inside out, and remembers it. */

import { pageWorker } from "../common/data.ts";
import { HEADER, laidSize, PADDING, scopeHeader } from "./boxes.ts";
import type { Placed, Problem } from "./layers.ts";
import type { Item } from "./model.ts";
import type { ScopeGraph, Visible } from "./visible.ts";

/** A scope with its inside placed. */
export interface Laid {
  scope: Item;
  graph: ScopeGraph;
  placed: Placed;
  /** By vertex, the expanded scopes among the items. */
  inner: Map<number, Laid>;
}

let worker: Worker | undefined;
let tickets = 0;
let identities = 0;
interface Waiting {
  done: (placed: Placed[]) => void;
  failed: (problem: Error) => void;
}

const waiting = new Map<number, Waiting>();

/** Tells all who wait; the next question goes to a new worker. */
function fail(said: string): void {
  worker?.terminate();
  worker = undefined;
  for (const { failed } of waiting.values()) failed(new Error(`the boxes could not be placed: ${said}`));
  waiting.clear();
}

function ask(problems: Problem[]): Promise<Placed[]> {
  if (worker === undefined) {
    worker = pageWorker();
    worker.onmessage = (event: MessageEvent<{ ticket: number; placed: Placed[] }>) => {
      waiting.get(event.data.ticket)?.done(event.data.placed);
      waiting.delete(event.data.ticket);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      fail(event.message || "the worker of the page could not be started");
    };
  }
  const ticket = ++tickets;
  worker.postMessage({ ticket, problems });
  return new Promise((done, failed) => waiting.set(ticket, { done, failed }));
}

/** Places of one graph; made anew when a switch changes what is in its scopes. */
export class Layouts {
  /** Numbers of problems by what they are made of, and their results. */
  private readonly known = new Map<string, number>();
  private readonly results = new Map<number, Placed>();
  private busy: Promise<unknown> = Promise.resolve();
  private window: number | undefined;

  constructor(
    readonly visible: Visible,
    /** Width of the window by its height, when it is first drawn in. */
    private readonly shape: () => number,
  ) {}

  /** The root with all of `expanded` that is inside expanded scopes. */
  async of(expanded: ReadonlySet<Item>): Promise<Laid> {
    const problems: Problem[] = [];
    const plan = this.plan(this.visible.model.root, expanded, problems);
    this.begin(problems);
    // Even without problems of its own: those asked before may be on their way.
    try {
      await this.busy;
    } catch (problem) {
      // The next picture is placed from the beginning.
      this.known.clear();
      this.busy = Promise.resolve();
      throw problem;
    }
    return this.filled(plan);
  }

  /** Places what is inside a closed scope before anybody opens it. */
  async foresee(scope: Item): Promise<void> {
    const problems: Problem[] = [];
    this.plan(scope, NONE, problems);
    this.begin(problems);
    // Who opens a scope waits for it, and is told if it fails; here nobody has asked.
    await this.busy.catch(() => undefined);
  }

  private begin(problems: Problem[]): void {
    if (problems.length > 0) this.busy = Promise.all([this.busy, this.placed(problems)]);
  }

  private async placed(problems: Problem[]): Promise<void> {
    for (const placed of await ask(problems)) this.results.set(placed.id, placed);
  }

  private plan(scope: Item, expanded: ReadonlySet<Item>, problems: Problem[]): Plan {
    const { model } = this.visible;
    const graph = this.visible.graph(scope);
    const inner = new Map<number, Plan>();
    graph.items.forEach((item, i) => {
      if (model.isScope(item) && expanded.has(item)) inner.set(graph.ins.length + i, this.plan(item, expanded, problems));
    });
    const made = [...inner].map(([vertex, plan]) => `${vertex}:${plan.id}`).join();
    const key = `${scope}/${graph.items.length}/${made}`;
    let id = this.known.get(key);
    if (id === undefined) {
      id = ++identities;
      this.known.set(key, id);
      problems.push(this.problem(id, scope, graph, inner));
    }
    return { id, scope, graph, inner };
  }

  private problem(id: number, scope: Item, graph: ScopeGraph, inner: Map<number, Plan>): Problem {
    const sizes = [
      ...graph.ins.map(() => PORT),
      ...graph.items.map((item) => laidSize(this.visible, item)),
      ...graph.outs.map(() => PORT),
    ];
    const isRoot = scope === this.visible.model.root;
    const { across } = this.visible;
    const shape = (this.window ??= this.shape());
    return {
      id,
      widths: sizes.map(({ width }) => width),
      heights: sizes.map(({ height }) => height),
      inner: sizes.map((_, vertex) => inner.get(vertex)?.id ?? -1),
      ins: graph.ins.length,
      outs: graph.outs.length,
      edges: graph.edges.flatMap(({ a, b }) => [a, b]),
      header: isRoot ? PADDING : HEADER + (across ? BELOW : 0),
      padding: PADDING,
      least: isRoot ? 0 : scopeHeader(this.visible.model, scope),
      across,
      gap: across ? SIDE_GAP : GAP,
      shape: across && shape > 0 ? 1 / shape : shape,
    };
  }

  private filled(plan: Plan): Laid {
    const inner = new Map([...plan.inner].map(([vertex, child]) => [vertex, this.filled(child)]));
    return { scope: plan.scope, graph: plan.graph, placed: this.results.get(plan.id)!, inner };
  }
}

const NONE: ReadonlySet<Item> = new Set();
/** Between layers, for an arrow and a shape; wider where these stand side by side. */
const GAP = 46;
const SIDE_GAP = 108;
/** Below a title beside layers; before layers the lines that enter a scope make that room. */
const BELOW = 14;
const PORT = { width: 8, height: 1 };

interface Plan {
  id: number;
  scope: Item;
  graph: ScopeGraph;
  inner: Map<number, Plan>;
}
