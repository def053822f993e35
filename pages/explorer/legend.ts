/** What the colours mean: on the graph, and in the panel. */

import { h } from "../common/dom.ts";
import { CATEGORIES, categoryOf } from "./categories.ts";
import type { Item } from "./model.ts";
import { type Painted, ramp } from "./overlays.ts";
import { type Context, jump, listed, section } from "./panel.ts";
import { clean, count, distinctEnds } from "./text.ts";
import type { Model } from "./model.ts";

/** The legend in the corner of the graph. */
export function legend(model: Model, painted: Painted | undefined, comparing: boolean): HTMLElement[] {
  if (painted !== undefined) return overlayLegend(painted);
  if (comparing) {
    const marks = [["changed", "changed"], ["only", "only here"], ["same", "the same"]] as const;
    return [h("div", { class: "keys" }, ...marks.map(([mark, said]) => h("span", { class: `key mark ${mark}` }, said)))];
  }
  const used = new Set<string>();
  for (let node = 0; node < model.size; node++) if (model.stored[node] === 0) used.add(categoryOf(model, node));
  const keys = CATEGORIES.filter(([name]) => used.has(name)).map(([name, said]) => h("span", { class: "key" }, h("i", { class: `dot cat-${name}` }), said));
  return keys.length < 2 ? [] : [h("div", { class: "keys" }, ...keys)];
}

function overlayLegend(painted: Painted): HTMLElement[] {
  const { overlay } = painted;
  const title = h("b", {}, clean(overlay.label));
  if (overlay.kind === "category") {
    const counts = painted.counts(painted.model.root);
    const keys = (overlay.categories ?? []).map(({ label }, i) => {
      const dot = h("i", { class: "dot", style: `background:${painted.colour(i)}` });
      return h("span", { class: "key" }, dot, `${clean(label)} (${(counts.get(i) ?? 0).toLocaleString("en")})`);
    });
    return [title, h("div", { class: "keys" }, ...keys)];
  }
  const ends = painted.ends();
  if (ends === undefined) return [title, h("span", { class: "muted" }, "nothing known")];
  const steps = Array.from({ length: 9 }, (_, i) => ramp(i / 8));
  return [
    title,
    h("div", { class: "scale", style: `background:linear-gradient(to right,${steps.join()})` }),
    h("div", { class: "axis" }, h("span", {}, painted.textOf(ends[0])), h("span", {}, painted.textOf(ends[1]))),
  ];
}

/** For nothing selected: what the overlay is, how many in each category, and the nodes that matter. */
export function overlayList(context: Context, painted: Painted): HTMLElement {
  const { overlay, model } = painted;
  const part = section(clean(overlay.label), h("p", { class: "muted" }, clean(overlay.about)));
  part.classList.add("overlay-list");
  if (overlay.kind === "category") {
    const rows = categoryRows(painted, model.root);
    part.append(...rows);
    const notable = painted.top(model.size).filter((node) => ["warn", "bad"].includes(overlay.categories?.[painted.value(node)!]?.tone ?? ""));
    if (notable.length > 0) part.append(listed(rowsOf(context, painted, notable.slice(0, 10))));
    return part;
  }
  const top = painted.top(10);
  if (overlay.adds) part.append(h("p", {}, `${painted.textOf(painted.total())} in all`));
  if (top.length === 0) part.append(h("p", {}, "Nothing is known of any node."));
  const known = overlay.values.filter((value) => value !== null).length;
  part.append(listed(rowsOf(context, painted, top)));
  part.append(h("p", { class: "muted" }, `known for ${count(known, "node")} of ${model.size.toLocaleString("en")}`));
  return part;
}

function categoryRows(painted: Painted, item: Item): HTMLElement[] {
  const counts = painted.counts(item);
  const total = [...counts.values()].reduce((sum, number) => sum + number, 0) || 1;
  return [...counts].sort((a, b) => b[1] - a[1]).map(([category, number]) =>
    h(
      "div",
      { class: "bar-row" },
      h("span", { class: "bar-name" }, painted.textOf(category)),
      h("span", { class: "bar-track" }, h("span", { class: "bar-fill", style: `width:${(100 * number) / total}%;background:${painted.colour(category)}` })),
      h("span", { class: "bar-count" }, number.toLocaleString("en")),
    ),
  );
}

function rowsOf(context: Context, painted: Painted, nodes: Item[]): HTMLElement[] {
  const ends = distinctEnds(nodes.map((node) => painted.model.name(node)));
  return nodes.map((node, i) => valued(context, painted, node, clean(ends[i]!)));
}

function valued(context: Context, painted: Painted, node: Item, said: string): HTMLElement {
  const total = painted.overlay.adds ? painted.total() : 0;
  const value = painted.value(node)!;
  const share = total > 0 ? ` (${Number(((100 * value) / total).toPrecision(2))} %)` : "";
  return h("div", { class: "value-row" }, jump(context, node, said), h("span", { class: "type" }, painted.text(node) + share));
}

/** Of the selected item, its values in all overlays. */
export function overlayOfItem(context: Context, item: Item): HTMLElement | null {
  const rows: HTMLElement[] = [];
  for (const painted of context.painted) {
    const { overlay } = painted;
    const text = painted.text(item);
    if (text === "") continue;
    const share = overlay.adds && painted.total() > 0 ? ` (${Number(((100 * painted.value(item)!) / painted.total()).toPrecision(2))} %)` : "";
    const dot = h("i", { class: "dot", style: `background:${painted.colour(painted.value(item)!)}` });
    const worst = context.model.isScope(item) && !overlay.adds && overlay.kind === "amount" ? "worst: " : "";
    rows.push(h("dt", {}, clean(overlay.label)), h("dd", {}, dot, worst + text + share));
    const reason = context.model.isScope(item) ? "" : painted.reason(item);
    if (reason !== "") rows.push(h("dd", { class: "reason" }, clean(reason)));
    if (overlay.kind === "category" && context.model.isScope(item)) rows.push(h("dd", { class: "reason" }, ...categoryRows(painted, item)));
  }
  if (rows.length === 0) return null;
  return section("Measured", h("dl", { class: "rows" }, ...rows));
}
