/** What stands in each box, and how large that makes it. */

import { categoryOf, categoryOfOp } from "./categories.ts";
import type { Item, Model } from "./model.ts";
import { NodeKind } from "./schema.ts";
import { clean, count, cutOff, fitted, lastPart, shapeText, textWidth } from "./text.ts";
import type { Visible } from "./visible.ts";

export const HEADER = 46;
export const PADDING = 20;
const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
export const TITLE = `600 12.5px ${FAMILY}`;
export const SMALL = `11px ${FAMILY}`;
const LEAST = 78;
const MOST = 224;
const SIDES = 24;
const ROWS = 3;
/** Attributes that are written out, and the room for the value of one. */
const ATTRIBUTES = 8;
const MOST_OF_VALUE = 130;
/** Height of what is fused into a node. */
export const FUSED = 18;
/** Letters of a constant that is written out. */
const LONGEST = 14;

export interface Box {
  /** Full name. */
  name: string;
  /** What is said of a scope, in full. */
  caption: string;
  title: string;
  subtitle: string;
  /** Constants folded into it: name and shape, of a few numbers the numbers. */
  rows: { name: string; shape: string }[];
  /** dtype of a quantized output. */
  chip: string;
  /** What runs inside it behind its own work: a fused activation. */
  fused: { title: string; category: string }[];
  category: string;
  width: number;
  height: number;
}

const made = new WeakMap<Visible, Map<Item, Box>>();

export function boxOf(visible: Visible, item: Item): Box {
  let boxes = made.get(visible);
  if (boxes === undefined) made.set(visible, (boxes = new Map()));
  let box = boxes.get(item);
  if (box === undefined) {
    box = visible.model.isScope(item) ? scopeBox(visible.model, item) : nodeBox(visible, item);
    box.name = clean(visible.model.name(item));
    boxes.set(item, box);
  }
  return box;
}

/** As it is placed: always as if values went down, so that a box of a graph drawn from left to right lies on its side. */
export function laidSize(visible: Visible, item: Item): { width: number; height: number } {
  const { width, height } = boxOf(visible, item);
  return visible.across ? { width: height, height: width } : { width, height };
}

function scopeBox(model: Model, scope: Item): Box {
  const { repeats, caption } = model.graph.scopes;
  const times = repeats[scope - model.size]! > 1 ? ` \u00d7${repeats[scope - model.size]!}` : "";
  const said = clean(model.text(caption[scope - model.size])) || count(model.nodesOf(scope).length, "node");
  const cut = textWidth(said, SMALL) > MOST - SIDES - 16 ? said.lastIndexOf(", ") : -1;
  const [first, last] = cut < 0 ? [said, ""] : [said.slice(0, cut), said.slice(cut + 2)];
  return { ...box(model.label(scope) + times, first, last === "" ? [] : [{ name: last, shape: "" }], "", "scope", 16), caption: said };
}

/** Width of the title over an expanded scope. */
export function scopeHeader(model: Model, scope: Item): number {
  const { title, subtitle } = scopeBox(model, scope);
  return Math.max(textWidth(title, TITLE), textWidth(subtitle, SMALL)) + 40;
}

function nodeBox(visible: Visible, node: number): Box {
  const { model } = visible;
  const [kind, label, first] = [model.kind(node), model.label(node), model.outputs(node)[0]];
  const type = first === undefined ? "" : clean(`${first.dtype} ${shapeText(first.shape)}`);
  const category = categoryOf(model, node);
  const chip = first !== undefined && (model.quantization(node).length > 0 || category === "quantize") ? clean(first.dtype) : "";
  if (kind === NodeKind.Input || kind === NodeKind.Output) return box(label, type || clean(model.op(node)), [], "", category, 14);
  if (kind === NodeKind.Constant || kind === NodeKind.Variable) return box(label, type, [], "", category, 0);
  const op = clean(model.op(node));
  return withFused(box(op, label === op ? "" : label, rowsOf(visible, node), chip, category, 0), fusedInto(model, node));
}

const FUSING = new Set(["fused_activation_function", "fused_ops", "activation"]);

/** Ops that an attribute names, as `"RELU"` or `["BiasAdd", "Relu"]`. */
function fusedInto(model: Model, node: number): Box["fused"] {
  const written = model.attributes(node).flatMap(([name, value]) => (FUSING.has(name) ? value.match(/[A-Za-z]\w*/g) ?? [] : []));
  return written.filter((op) => op !== "NONE").slice(0, ROWS).map((op) => ({ title: clean(op), category: categoryOfOp(op) }));
}

function withFused(made: Box, fused: Box["fused"]): Box {
  const room = Math.max(made.width - SIDES, ...fused.map(({ title }) => textWidth(title, SMALL)));
  return { ...made, fused, width: Math.round(room + SIDES), height: made.height + FUSED * fused.length };
}

function rowsOf(visible: Visible, node: number): { name: string; shape: string }[] {
  const { model } = visible;
  const { from, port, input } = model.graph.edges;
  const rows = [];
  for (const edge of model.inputs(node)) {
    if (port[edge]! < 0 || !visible.isHidden(from[edge]!)) continue;
    const origin = model.origin(from[edge]!);
    const shape = model.outputs(from[edge]!)[0]?.shape ?? "*";
    const numbers = shortValues(model.constants.get(origin)?.values);
    if (numbers === "" && (shape === "" || shape === "*")) continue;
    // A role says more than a name that an exporter made; X and W say less than any.
    const role = model.role(node, input[edge]!);
    const name = role.length > 2 ? role : lastPart(model.name(origin));
    rows.push({ name: clean(name), shape: numbers === "" ? shapeText(clean(shape)) : `= ${numbers}` });
  }
  const more = rows.length - ROWS;
  const shown = more > 1 ? [...rows.slice(0, ROWS), { name: `and ${more} more`, shape: "" }] : rows;
  return [...shown, ...attributeRows(visible, node)];
}

function attributeRows({ model, attributes }: Visible, node: number): Box["rows"] {
  if (attributes === undefined) return [];
  const found = model.attributes(node).filter(([name]) => attributes.test(name));
  return found.slice(0, ATTRIBUTES).map(([name, value]) => ({ name: clean(name), shape: fitted(clean(value), SMALL, MOST_OF_VALUE) }));
}

/** A few numbers as they are: axes, sizes, a factor; "" of more, which only their shape stands for. */
function shortValues(values: string | undefined): string {
  return values === undefined || values.length > LONGEST || /\.\.\.|\u2026/.test(values) ? "" : clean(values);
}

function box(title: string, subtitle: string, rows: Box["rows"], chip: string, category: string, extra: number): Box {
  const chipRoom = chip === "" ? 0 : textWidth(chip, SMALL) + 16;
  const shapes = rows.map(({ shape }) => textWidth(shape, SMALL));
  const wish = Math.max(
    textWidth(title, TITLE) + chipRoom,
    textWidth(subtitle, SMALL),
    ...rows.map(({ name }, i) => (shapes[i] === 0 ? textWidth(name, SMALL) : Math.min(textWidth(name, SMALL), 90) + shapes[i]! + 12)),
  );
  const room = Math.min(wish, MOST - SIDES - extra);
  return {
    name: "",
    caption: "",
    title: fitted(title, TITLE, room - chipRoom),
    subtitle: (category === "scope" ? cutOff : fitted)(subtitle, SMALL, room),
    rows: rows.map(({ name, shape }, i) => ({ name: fitted(name, SMALL, shapes[i] === 0 ? room : Math.max(20, room - shapes[i]! - 10)), shape })),
    chip,
    fused: [],
    category,
    width: Math.round(Math.max(LEAST, room + SIDES + extra)),
    height: (subtitle === "" ? 31 : 46) + (rows.length > 0 ? (category === "scope" ? -1 : 5) + 15 * rows.length : 0),
  };
}
