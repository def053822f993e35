/** What keys and words do. */

import { h } from "../common/dom.ts";

const KEYS: [string, string][] = [
  ["double-click, Enter", "open or close a scope; Shift Enter opens all in it"],
  ["\u2191 \u2193", "along edges: to where values come from, and go"],
  ["\u2190 \u2192", "to the boxes beside; from left to right, these are along edges"],
  ["d", "from left to right, or down"],
  ["t", "trace: all that leads to what is selected, and all that follows from it"],
  ["click on a line", "what it carries, from where and to whom"],
  ["Esc", "out of a box to its scope, then to nothing"],
  ["Alt \u2190, Alt \u2192", "back and forward"],
  ["/", "search; Enter next hit, Shift Enter previous"],
  ["f, +, -", "fit, larger, smaller"],
  ["n, p", "next and previous difference, where two graphs are compared"],
  ["wheel, pinch", "zoom; drag moves"],
];
const WORDS: [string, string][] = [
  ["conv relu", "both words, in name, op, dtype or shape"],
  ["/block_\\d+/", "a regular expression"],
  ["op:Conv2D", "only in ops; so name:, shape:, dtype:"],
  ["shape:1,224", "outputs whose sizes hold 1, 224 in a row"],
  ["attr:padding=SAME", "an attribute's name and value"],
];

export function help(): HTMLDialogElement {
  const rows = (pairs: [string, string][], tag: "kbd" | "code") =>
    h("dl", { class: "rows" }, ...pairs.flatMap(([name, said]) => [h("dt", {}, h(tag, {}, name)), h("dd", {}, said)]));
  const dialog = h("dialog", { class: "help", "aria-label": "Help" }, h("h2", {}, "Keys"), rows(KEYS, "kbd"), h("h2", {}, "Search"), rows(WORDS, "code"));
  dialog.append(h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "?") dialog.close();
  });
  return dialog;
}
