/** The panel beside the graph: what is selected, or the model as a whole; and the outline as a list. */

import { h } from "../common/dom.ts";
import { constantView } from "./constants.ts";
import { alike } from "./alike.ts";
import type { Item, Model } from "./model.ts";
import { categoryOf } from "./categories.ts";
import { copyText } from "../common/copy.ts";
import { overlayList, overlayOfItem } from "./legend.ts";
import type { Painted } from "./overlays.ts";
import { NodeKind } from "./schema.ts";
import { counted, type Trace } from "./trace.ts";
import { clean, count, lastPart, shapeText, short, sizesOf } from "./text.ts";
import type { Difference, Twins } from "./twins.ts";

export interface Context {
  model: Model;
  graph: number;
  painted: Painted[];
  overlay: Painted | undefined;
  twins: Twins | undefined;
  expanded: ReadonlySet<Item>;
  jump(item: Item, graph?: number): void;
  toggle(scope: Item): void;
  /** Opens a scope and all in it. */
  expandIn(scope: Item): void;
  /** What leads to the selected item and follows from it, while that is shown. */
  traced: Trace | undefined;
  trace(): void;
  difference(step: number): void;
  showDifference(difference: Difference): void;
}

const LISTED = 200;
const COPIES = 12;

/** What the panel holds for the item. */
export function details(context: Context, item: Item | null): HTMLElement[] {
  if (item === null || item === context.model.root) return wholeModel(context);
  return context.model.isScope(item) ? scope(context, item) : node(context, item);
}

export function section(title: string, ...children: (Node | string | null | undefined | false)[]): HTMLElement {
  return h("section", { class: "part" }, h("h3", {}, title), ...children);
}

/** Rows of names and values. */
export function table(rows: [string, Node | string][]): HTMLElement {
  const body = h("dl", { class: "rows" });
  for (const [name, value] of rows) body.append(h("dt", {}, name), h("dd", {}, value));
  return body;
}

/** A button that leads to an item. */
export function jump(context: Context, item: Item, text?: string): HTMLElement {
  const { model } = context;
  const name = model.name(item);
  const said = text ?? clean(lastPart(name) || name);
  const op = model.isScope(item) ? "scope" : clean(model.op(item));
  return h(
    "button",
    { class: "jump", title: clean(name), onclick: () => context.jump(item) },
    h("i", { class: `dot cat-${categoryOf(model, item)}` }),
    h("bdi", {}, said),
    op !== said && h("small", {}, op),
  );
}

/** The first of many, and a button for all others. */
export function listed(items: HTMLElement[]): HTMLElement {
  const list = h("ul", { class: "list" });
  const add = (some: HTMLElement[]): void => list.append(...some.map((item) => h("li", {}, item)));
  add(items.slice(0, LISTED));
  let shown = LISTED;
  const rest = (): void => {
    if (items.length <= shown) return;
    const more = h("button", { class: "more", onclick: () => {
      last.remove();
      add(items.slice(shown, shown + 5 * LISTED));
      shown += 5 * LISTED;
      rest();
    } }, `${(items.length - shown).toLocaleString("en")} more`);
    const last = h("li", {}, more);
    list.append(last);
  };
  rest();
  return list;
}

function head(context: Context, item: Item, title: string, kind: string): HTMLElement {
  const { model } = context;
  const name = model.name(item);
  const copy = h("button", { class: "quiet copy", title: "Copy the name", "aria-label": "Copy the name" }, "copy");
  copy.addEventListener("click", () => {
    void copyText(name).then((done) => {
      copy.textContent = done ? "copied" : "not allowed here";
      setTimeout(() => (copy.textContent = "copy"), 1500);
    });
  });
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Scopes around it" });
  for (const scope of model.around(item)) {
    crumbs.append(h("button", { class: "crumb", onclick: () => context.jump(scope) }, scope === model.root ? "model" : model.label(scope)), "\u203a");
  }
  return h(
    "header",
    { class: "head" },
    crumbs,
    h("h2", {}, h("i", { class: `dot cat-${categoryOf(model, item)}` }), h("bdi", {}, title), h("small", {}, kind)),
    h("p", { class: "name" }, h("bdi", { class: "mono" }, clean(name)), copy),
  );
}

function node(context: Context, item: Item): HTMLElement[] {
  const { model } = context;
  const op = model.op(item);
  const link = model.graph.nodes.documentation[model.graph.nodes.op[item]!];
  const title = head(context, item, clean(op.length > 80 ? `${op.slice(0, 80)}\u2026` : op), ["", "input", "output", "constant", "variable", "call"][model.kind(item)] ?? "");
  if (link !== undefined && /^https?:/.test(link)) {
    title.append(h("a", { class: "docs", href: link, target: "_blank", rel: "noopener noreferrer" }, `What ${clean(op)} does \u2197`));
  }
  title.append(traceButton(context));
  const parts = [title, traceOf(context), comparison(context, item)];
  const remarks = (model.graph.nodes.remarks?.[item] ?? []).map((text) => clean(model.text(text)));
  if (remarks.length > 0) parts.push(section("Remarks", ...remarks.map((text) => h("p", { class: "remark" }, text))));
  parts.push(overlayOfItem(context, item));
  const attributes = model.attributes(item);
  parts.push(inputs(context, item), outputs(context, item));
  if (attributes.length > 0) parts.push(section("Attributes", table(attributes.map(([name, value]) => [clean(name), long(value)]))));
  const constant = model.constants.get(item);
  if (constant !== undefined) parts.push(constantView(model, constant, "Values"));
  for (const edge of model.inputs(item)) {
    const from = model.graph.edges.from[edge]!;
    const held = model.stored[from] === 1 ? model.constants.get(model.origin(from)) : undefined;
    const role = clean(model.role(item, model.graph.edges.input[edge]!));
    if (held !== undefined) parts.push(constantView(model, held, [role, clean(lastPart(model.name(held.node)))].filter((part) => part !== "").join(" \u00b7 ")));
  }
  return parts.filter((part) => part !== null);
}

/** A long value is folded after its beginning. */
function long(value: string): HTMLElement {
  const text = clean(value);
  if (text.length <= 160) return h("code", {}, text);
  return h("details", {}, h("summary", {}, h("code", {}, `${text.slice(0, 120)}\u2026`)), h("code", {}, text));
}

function typeOf(model: Model, from: number, port: number): string {
  const output = model.outputs(from)[port];
  return output === undefined ? "" : clean(`${output.dtype} ${shapeText(output.shape)}`);
}

function inputs(context: Context, item: number): HTMLElement | null {
  const { model } = context;
  const { from, port, input } = model.graph.edges;
  const edges = model.inputs(item);
  if (edges.length === 0) return null;
  const role = (edge: number) => clean(port[edge]! < 0 ? "" : model.role(item, input[edge]!));
  const rows = edges.map((edge) =>
    h("div", { class: "value-row" }, role(edge) !== "" && h("span", { class: "role" }, role(edge)), jump(context, from[edge]!), h("span", { class: "type" }, port[edge]! < 0 ? "control edge" : typeOf(model, from[edge]!, port[edge]!))),
  );
  return section(count(edges.length, "input"), listed(rows));
}

function outputs(context: Context, item: number): HTMLElement | null {
  const { model } = context;
  const quantization = model.quantization(item);
  const { to, port } = model.graph.edges;
  const consumers = model.consumers(item);
  const all = model.outputs(item);
  if (all.length === 0 && consumers.length === 0) return null;
  const part = section(count(all.length, "output"));
  all.forEach(({ dtype, shape }, i) => {
    const edges = consumers.filter((edge) => port[edge] === i);
    part.append(h("p", { class: "output" }, h("b", {}, `${i}`), h("span", { class: "type" }, clean(`${dtype} ${shapeText(shape)}`))));
    if (quantization[i]) part.append(h("p", { class: "quantization" }, clean(quantization[i]!)));
    if (edges.length > 0) part.append(listed(edges.map((edge) => jump(context, to[edge]!))));
    else part.append(h("p", { class: "muted" }, "nothing reads it"));
  });
  const control = consumers.filter((edge) => port[edge]! < 0);
  if (control.length > 0) part.append(h("p", { class: "muted" }, "Runs before (control edges)"), listed(control.map((edge) => jump(context, to[edge]!))));
  return part;
}

function scope(context: Context, item: Item): HTMLElement[] {
  const { model } = context;
  const kinds = ["scope", "block found by structure", "repeated block", "function"];
  const index = item - model.size;
  const title = head(context, item, model.label(item), kinds[model.graph.scopes.kind[index]!] ?? "scope");
  const open = context.expanded.has(item);
  const inner = model.childrenOf(item).filter((child) => model.isScope(child));
  const all = h("button", { title: "Open it and all scopes in it (Shift+Enter)", onclick: () => context.expandIn(item) }, "Expand all in it");
  title.append(
    h("button", { class: "main", onclick: () => context.toggle(item) }, open ? "Collapse" : "Expand"),
    ...(inner.some((child) => !context.expanded.has(child)) ? [" ", all] : []),
    " ",
    traceButton(context),
  );
  const repeats = model.graph.scopes.repeats[index]!;
  if (repeats > 1) title.append(h("p", { class: "muted" }, `${repeats} times the same structure in a row`));
  const caption = clean(model.text(model.graph.scopes.caption[index]));
  if (caption !== "") title.append(h("p", {}, caption));
  const nodes = model.nodesOf(item);
  return [
    title,
    traceOf(context),
    comparison(context, item),
    overlayOfItem(context, item),
    section("Holds", table(sums(model, nodes))),
    opsOf(model, nodes),
    section("Inside", listed(model.childrenOf(item).map((child) => jump(context, child)))),
    copies(context, item),
  ].filter((part) => part !== null);
}

/** Scopes with the same ops; few of them, since a long list makes opening a scope slow. */
function copies(context: Context, item: Item): HTMLElement | null {
  const { model } = context;
  const others = alike(model, item);
  if (others.length === 0) return null;
  const rows = others.slice(0, COPIES).map((other) => jump(context, other, clean(model.name(other))));
  const left = others.length - rows.length;
  return section(`${count(others.length, "other scope")} with the same ops`, listed(rows), left > 0 && h("p", { class: "muted" }, `and ${left.toLocaleString("en")} more`));
}

function traceButton(context: Context): HTMLElement {
  const title = "All that leads to it, and all that follows from it (t)";
  return h("button", { title, "aria-pressed": String(context.traced !== undefined), onclick: () => context.trace() }, "Trace");
}

function traceOf({ model, traced }: Context): HTMLElement | null {
  if (traced === undefined) return null;
  const rows: [string, string][] = [
    ["lead to it", count(counted(model, traced.before), "node")],
    ["follow from it", count(counted(model, traced.after), "node")],
  ];
  return section("Traced", table(rows));
}

function sums(model: Model, nodes: Int32Array): [string, string][] {
  let [real, parameters, constants] = [0, 0, 0];
  for (const node of nodes) {
    if (model.kind(node) !== NodeKind.Output) real++;
    const constant = model.constants.get(node);
    if (constant === undefined) continue;
    constants += constant.bytes;
    const shape = model.text(constant.shape);
    const sizes = sizesOf(shape);
    parameters += sizes.every(Number.isFinite) ? sizes.reduce((product, size) => product * size, 1) : 0;
  }
  const rows: [string, string][] = [["nodes", real.toLocaleString("en")]];
  if (parameters > 0) rows.push(["parameters", `${short(parameters)} (${parameters.toLocaleString("en")})`], ["bytes of constants", constants.toLocaleString("en")]);
  return rows;
}

/** Ops by how often they occur, as bars. */
function opsOf(model: Model, nodes: Int32Array): HTMLElement {
  const counts = new Map<string, [number, number]>();
  for (const node of nodes) {
    // What leaves the graph is drawn as a box, and is no op.
    if (model.stored[node] === 1 || model.kind(node) === NodeKind.Output) continue;
    const op = model.op(node);
    counts.set(op, [(counts.get(op)?.[0] ?? 0) + 1, node]);
  }
  const sorted = [...counts].sort((a, b) => b[1][0] - a[1][0]);
  const most = sorted[0]?.[1][0] ?? 1;
  const bars = sorted.map(([op, [number, first]]) =>
    h(
      "div",
      { class: "bar-row" },
      h("span", { class: "bar-name", title: clean(op) }, clean(op)),
      h("span", { class: "bar-track" }, h("span", { class: `bar-fill cat-${categoryOf(model, first)}`, style: `width:${(100 * number) / most}%` })),
      h("span", { class: "bar-count" }, number.toLocaleString("en")),
    ),
  );
  return section("Ops", listed(bars));
}

function wholeModel(context: Context): HTMLElement[] {
  const { model } = context;
  const { document, graph } = model;
  const parts: (HTMLElement | null)[] = [h("header", { class: "head" }, h("h2", {}, h("bdi", {}, clean(graph.label || document.title))))];
  if (graph.facts.length > 0) parts[0]!.append(table(graph.facts.map(([name, value]) => [clean(name), clean(value)])));
  if (document.notes.length > 0) parts.push(section("Not shown", ...document.notes.map((note) => h("p", { class: "remark" }, clean(note)))));
  if (context.twins !== undefined) parts.push(differences(context, context.twins));
  if (context.overlay !== undefined) parts.push(overlayList(context, context.overlay));
  const nodes = model.scopes > 0 ? model.nodesOf(model.root) : new Int32Array();
  parts.push(section("Holds", table(sums(model, nodes))), opsOf(model, nodes));
  return parts.filter((part) => part !== null);
}

const SAID = { same: "the same in both", changed: "changed", only: "only here" };

function comparison(context: Context, item: Item): HTMLElement | null {
  const { twins, graph } = context;
  if (twins === undefined) return null;
  const mark = twins.mark(graph, item);
  const part = section("Compared", h("p", { class: `marked ${mark}` }, SAID[mark]));
  for (const line of twins.lines(graph, item)) part.append(h("p", { class: "remark" }, clean(line)));
  return part;
}

function differences(context: Context, twins: Twins): HTMLElement {
  const [first, second] = twins.models;
  const rows = twins.differences.map((difference) => {
    const [a, b] = difference.items;
    const [model, item, where] = a !== undefined ? [first, a, 0] : [second, b!, 1];
    const said = difference.mark === "changed" ? (difference.lines[0] ?? "changed") : `only in ${clean(twins.models[where]!.graph.label)}`;
    return h(
      "button",
      { class: `difference ${difference.mark}`, onclick: () => context.showDifference(difference) },
      h("bdi", {}, clean(model.name(item))),
      h("small", {}, clean(said)),
    );
  });
  if (rows.length === 0) return section("Compared", h("p", {}, "No node differs."));
  return section(
    count(rows.length, "difference"),
    h(
      "p",
      { class: "steps" },
      h("button", { onclick: () => context.difference(-1) }, "\u2191 previous"),
      h("button", { onclick: () => context.difference(1) }, "\u2193 next"),
    ),
    listed(rows),
  );
}
