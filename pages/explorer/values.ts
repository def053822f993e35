/** All numbers of a constant: in pages, to copy, and as a file for numpy. */

import { copyText } from "../common/copy.ts";
import { h } from "../common/dom.ts";
import { fileName, offer } from "../common/files.ts";
import { bytesOf } from "../common/data.ts";
import type { Constant } from "./schema.ts";
import { count, sizesOf } from "./text.ts";

type Numbers = NonNullable<Constant["numbers"]>;
type Values = { length: number; at(i: number): number | bigint };

const PAGE = 100;
const ROW = 4;
/** Numbers that are copied as text; of more, one saves the file. */
const MOST_COPIED = 200_000;

/** A part that is filled when it is opened. */
export function valuesView(numbers: Numbers, shape: string, name: string): HTMLElement {
  const sizes = sizesOf(shape);
  const total = sizes.reduce((product, size) => product * size, 1);
  const body = h("div", { class: "numbers" });
  const found = h("details", { class: "all-values" }, h("summary", {}, `All ${count(total, "number")}`), body);
  found.addEventListener("toggle", () => {
    if (found.open && body.childElementCount === 0) fill(body, numbers, sizes, name);
  });
  return found;
}

function fill(body: HTMLElement, numbers: Numbers, sizes: number[], name: string): void {
  const bytes = bytesOf(numbers.data);
  const values = decoded(numbers.type, bytes);
  const pages = Math.max(1, Math.ceil(values.length / PAGE));
  const grid = h("div", { class: "number-grid" });
  const said = h("span", { class: "muted", "aria-live": "polite" });
  const button = (text: string, title: string, onclick: () => void) => h("button", { title, "aria-label": title, onclick }, text);
  let page = 0;
  const back = button("\u2190", "Previous numbers", () => show(page - 1));
  const on = button("\u2192", "Next numbers", () => show(page + 1));
  const show = (next: number): void => {
    page = Math.min(pages - 1, Math.max(0, next));
    [back.disabled, on.disabled] = [page === 0, page === pages - 1];
    const end = Math.min(values.length, (page + 1) * PAGE);
    said.textContent = `${(page * PAGE).toLocaleString("en")} to ${(end - 1).toLocaleString("en")}`;
    const cells: HTMLElement[] = [];
    for (let i = page * PAGE; i < end; i += ROW) {
      cells.push(h("span", { class: "muted index" }, indexOf(i, sizes)));
      for (let j = i; j < i + ROW; j++) cells.push(h("span", {}, j < end ? text(values.at(j)) : ""));
    }
    grid.replaceChildren(...cells);
  };
  show(0);
  const copy = button("Copy", "Copy all numbers as a JSON list", () => {
    if (values.length > MOST_COPIED) return void (said.textContent = "too many to copy; save them");
    void copyText(nested(values, sizes)).then((done) => (said.textContent = done ? "copied" : "not allowed here"));
  });
  const save = button("Save .npy", "Save as a file that numpy loads", () => void offer(npy(numbers.type, sizes, bytes), `${fileName(name, "values")}.npy`));
  body.append(h("p", { class: "steps" }, pages > 1 && back, pages > 1 && on, copy, save), said, grid);
}

/** `[0, 2, 1]` of the i-th number. */
function indexOf(i: number, sizes: number[]): string {
  const found: number[] = [];
  let left = i;
  for (const size of [...sizes].reverse()) {
    found.unshift(left % size);
    left = Math.floor(left / size);
  }
  return `[${found.join(", ")}]`;
}

function text(value: number | bigint): string {
  return typeof value === "bigint" || Number.isInteger(value) || !Number.isFinite(value) ? String(value) : String(Number(value.toPrecision(6)));
}

function nested(values: Values, sizes: number[]): string {
  const json = (value: number | bigint) => (typeof value === "bigint" || Number.isFinite(value) ? String(value) : `"${value}"`);
  let at = 0;
  const part = (depth: number): string => {
    if (depth === sizes.length) return json(values.at(at++));
    return `[${Array.from({ length: sizes[depth]! }, () => part(depth + 1)).join(", ")}]`;
  };
  return part(0);
}

/** Numbers in the order of memory, little-endian whatever the machine. */
function decoded(type: string, bytes: Uint8Array): Values {
  const view = new DataView(bytes.buffer);
  const size = Number(/\d+$/.exec(type)?.[0] ?? 1);
  const kind = type.replace(/^[<>|=]/, "")[0];
  const readers: Record<string, (at: number) => number | bigint> = {
    f2: (at) => half(view.getUint16(at, true)),
    f4: (at) => view.getFloat32(at, true),
    f8: (at) => view.getFloat64(at, true),
    i1: (at) => view.getInt8(at),
    i2: (at) => view.getInt16(at, true),
    i4: (at) => view.getInt32(at, true),
    i8: (at) => view.getBigInt64(at, true),
    u1: (at) => view.getUint8(at),
    u2: (at) => view.getUint16(at, true),
    u4: (at) => view.getUint32(at, true),
    u8: (at) => view.getBigUint64(at, true),
    b1: (at) => view.getUint8(at),
  };
  const read = readers[`${kind}${size}`] ?? (() => NaN);
  return { length: Math.floor(bytes.length / size), at: (i) => read(i * size) };
}

/** A float of 16 bits: one of sign, five of exponent, ten of fraction. */
function half(bits: number): number {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The form of numpy's files, version 1.0: a head of a multiple of 64 bytes, and the numbers. */
export function npy(type: string, sizes: number[], bytes: Uint8Array): Blob {
  const shape = sizes.length === 1 ? `${sizes[0]!},` : sizes.join(", ");
  const words = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape}), }`;
  const room = Math.ceil((10 + words.length + 1) / 64) * 64 - 10;
  const head = new Uint8Array(10 + room).fill(0x20);
  head.set([0x93, ...[..."NUMPY"].map((c) => c.charCodeAt(0)), 1, 0, room & 255, room >> 8]);
  head.set([...words].map((c) => c.charCodeAt(0)), 10);
  head[head.length - 1] = 0x0a;
  return new Blob([head, bytes.slice().buffer], { type: "application/octet-stream" });
}
