/** What transforms did: those that changed something; the others folded away. */

import { h } from "../../common/dom.ts";
import { amount, digits } from "../format.ts";
import type { Ledger, Step, Unit } from "../schema.ts";
import { folded, scrolling } from "./table.ts";

export function ledger(block: Ledger): HTMLElement {
  const [busy, idle] = [block.steps.filter((s) => s.changes > 0), block.steps.filter((s) => s.changes === 0)];
  const parts = busy.length ? [rows(busy)] : [h("p", {}, "No transform changed anything.")];
  if (idle.length) {
    const what = idle.length === 1 ? "1 transform" : `${idle.length} transforms`;
    parts.push(folded(`${what} found nothing to change`, rows(idle)));
  }
  return h("div", { class: "ledger" }, ...parts);
}

function rows(steps: Step[]): HTMLElement {
  const titles = ["transform", "changed", "left alone", "nodes", "size", "difference"];
  const head = titles.map((title, at) => h("th", { scope: "col", class: at ? "number" : "" }, title));
  const body = steps.flatMap((step) => [line(step), ...reasons(step)]);
  return scrolling(h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)), "transforms");
}

function line(step: Step): HTMLElement {
  const cells = [
    digits(step.changes),
    digits(step.left),
    fromTo(step.nodes, ""),
    fromTo(step.size_bytes, "bytes"),
    step.difference === null ? "" : step.difference === 0 ? "0" : step.difference.toExponential(1),
  ];
  const name = h("th", { scope: "row" }, h("code", {}, step.name));
  return h("tr", {}, name, ...cells.map((cell) => h("td", { class: "number" }, cell)));
}

function fromTo([before, after]: [number, number], unit: Unit): string {
  return before === after ? amount(after, unit) : `${amount(before, unit)} → ${amount(after, unit)}`;
}

/** Why nodes were left alone, in a line of its own below the figures. */
function reasons(step: Step): HTMLElement[] {
  if (!step.reasons.length) return [];
  const items = step.reasons.map((reason) => {
    const first = reason.example === "" ? null : h("code", {}, reason.example);
    return h("li", {}, `${digits(reason.count)} × ${reason.text}`, first && " (first ", first, first && ")");
  });
  const list = folded(`why ${digits(step.left)} were left alone`, h("ul", {}, ...items));
  return [h("tr", { class: "why" }, h("td", { colspan: 6 }, list))];
}
