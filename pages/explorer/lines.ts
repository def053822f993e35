/** What the panel tells of a line: the tensors that it carries, who makes them and who reads them. */

import { h } from "../common/dom.ts";
import type { Model } from "./model.ts";
import { type Context, jump, listed, section, table } from "./panel.ts";
import { byteText, clean, count, lastPart, shapeText, sizesOf } from "./text.ts";
import { source, type Tensor } from "./visible.ts";

const SHOWN = 20;

export function lineDetails(context: Context, tensors: Tensor[]): HTMLElement[] {
  const title = tensors.length === 1 ? clean(nameOf(context.model, tensors[0]!)) : count(tensors.length, "tensor");
  const head = h("header", { class: "head line" }, h("h2", {}, h("bdi", {}, title), h("small", {}, "on this line")));
  const parts = tensors.slice(0, SHOWN).map((key) => tensorOf(context, key, tensors.length > 1));
  if (tensors.length > SHOWN) parts.push(h("p", { class: "muted" }, `and ${count(tensors.length - SHOWN, "more tensor")}`));
  return [head, ...parts];
}

/** The name of a value as TensorFlow writes it; outputs beyond the first have a number. */
function nameOf(model: Model, key: Tensor): string {
  const { node, port } = source(key);
  const last = lastPart(model.name(node)) || model.name(node);
  return port > 0 ? `${last}:${port}` : last;
}

function tensorOf(context: Context, key: Tensor, isOneOfMany: boolean): HTMLElement {
  const { model } = context;
  const { node, port } = source(key);
  const rows: [string, string][] = [];
  const output = model.outputs(node)[port];
  if (port < 0) rows.push(["carries", "nothing: one runs before the other"]);
  if (output !== undefined) {
    rows.push(["shape", clean(shapeText(output.shape))], ["dtype", clean(output.dtype || "unknown")]);
    const bytes = bytesOf(output.dtype, output.shape);
    if (bytes !== undefined) rows.push(["size", byteText(bytes)]);
  }
  const words = model.quantization(node)[port];
  if (words) rows.push(["quantized", clean(words)]);
  const { from, port: ports, to, input } = model.graph.edges;
  const readers = model.consumers(node).filter((edge) => from[edge] === node && ports[edge] === port);
  const rowsOf = readers.map((edge) => {
    const role = clean(model.role(to[edge]!, input[edge]!));
    return h("div", { class: "value-row" }, role !== "" && h("span", { class: "role" }, role), jump(context, to[edge]!));
  });
  return section(
    isOneOfMany ? clean(nameOf(model, key)) : "Tensor",
    table(rows),
    h("p", { class: "muted" }, "made by"),
    jump(context, node),
    h("p", { class: "muted" }, `read by ${count(readers.length, "node")}`),
    listed(rowsOf),
  );
}

const BITS: Record<string, number> = { float: 32, half: 16, bfloat16: 16, double: 64, bool: 8, complex64: 64, complex128: 128 };

/** Bytes of a tensor whose sizes are all known. */
function bytesOf(dtype: string, shape: string): number | undefined {
  const sizes = sizesOf(shape);
  const bits = BITS[dtype] ?? Number(/^q?u?int(\d+)$|^float(\d+)$/.exec(dtype)?.slice(1).find((part) => part !== undefined));
  return bits > 0 && sizes.every(Number.isFinite) ? Math.ceil((sizes.reduce((product, size) => product * size, 1) * bits) / 8) : undefined;
}
