/** Blocks of words: sentences, figures, commands. */

import { h } from "../../common/dom.ts";
import type { Command, Commands, Facts, Notes, Text } from "../schema.ts";

export function text(block: Text): HTMLElement {
  return h("p", { class: `text ${block.tone}` }, block.text);
}

export function notes(block: Notes): HTMLElement {
  const items = block.items.map((item) => h("li", { class: item.tone }, item.text));
  return h("ul", { class: "notes" }, ...items);
}

export function facts(block: Facts): HTMLElement {
  const items = block.items.map((item) =>
    h(
      "div",
      { class: `fact ${item.tone}` },
      h("dt", {}, item.label),
      h("dd", {}, item.value),
      item.note !== "" && h("dd", { class: "about" }, item.note),
    ),
  );
  return h("dl", { class: "facts" }, ...items);
}

export function commands(block: Commands): HTMLElement {
  return h("div", { class: "commands" }, ...block.items.map(command));
}

function command({ text: first, why, lines }: Command): HTMLElement {
  const text = [first, ...lines].join("\n");
  const code = h("code", { tabindex: 0 }, text);
  const said = h("span", { class: "said", role: "status" });
  const button = h("button", { type: "button", "aria-label": `Copy: ${first}` }, "Copy");
  button.addEventListener("click", () => {
    void copy(text, code).then((done) => {
      said.textContent = done ? "copied" : "selected: press Ctrl-C";
      setTimeout(() => (said.textContent = ""), 3000);
    });
  });
  return h("div", { class: "command" }, why !== "" && h("p", {}, why), h("pre", {}, code), button, said);
}

/** True if it is in the clipboard; else it is selected, to be copied by hand. */
async function copy(text: string, shown: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(shown);
    return false;
  }
}
