/** Tables. */

import { h } from "../../common/dom.ts";
import { amount } from "../format.ts";
import type { Cell, Column, Table } from "../schema.ts";

export function table(block: Table): HTMLElement {
  const inside = scrolling(plain(block.columns, block.rows), block.title || "table");
  if (block.folded) return folded(`${block.title} (${block.rows.length})`, inside);
  return block.title === "" ? inside : h("div", { class: "titled" }, h("h3", {}, block.title), inside);
}

export function plain(columns: Column[], rows: Cell[][]): HTMLTableElement {
  const isNumber = columns.map((_, at) => rows.every((row) => typeof row[at] !== "string"));
  const kind = (at: number): string => (isNumber[at] ? "number" : columns[at]?.code ? "mono" : "");
  const head = columns.map((column, at) => h("th", { class: isNumber[at] ? "number" : "", scope: "col" }, column.title));
  const lines = rows.map((row) =>
    h("tr", {}, ...row.map((cell, at) => h("td", { class: `${kind(at)} ${isShort(cell) ? "short" : ""}` }, shown(cell, columns[at])))),
  );
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...lines));
}

/** True for what no narrow column shall break; names of a model are longer, and may break anywhere. */
export const isShort = (cell: Cell): boolean => typeof cell === "string" && cell.length < 24;

export function shown(cell: Cell, column: Column | undefined): string {
  return typeof cell === "string" ? cell : amount(cell, column?.unit ?? "");
}

/** A box that scrolls sideways by itself, and can be reached by key to do so. */
export function scrolling(inside: HTMLElement, name: string): HTMLElement {
  return h("div", { class: "scrolling", tabindex: 0, role: "region", "aria-label": name }, inside);
}

export function folded(title: string, ...inside: HTMLElement[]): HTMLDetailsElement {
  return h("details", {}, h("summary", {}, title), ...inside);
}
