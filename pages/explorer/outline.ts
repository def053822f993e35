/** The graph as a tree of lists: for screen readers, for keyboards, and for scopes too large to draw. */

import { h } from "../common/dom.ts";
import { categoryOf } from "./categories.ts";
import type { Item } from "./model.ts";
import type { Context } from "./panel.ts";
import { clean } from "./text.ts";
import type { Visible } from "./visible.ts";

const AT_ONCE = 300;

export function outline(context: Context, visible: Visible, selected: Item | null): HTMLElement {
  const { model } = context;
  const tree = h("div", { class: "outline", role: "tree", "aria-label": `Nodes of ${clean(model.graph.label)}` });
  if (model.scopes > 0) tree.append(...rows(context, visible, model.root, selected, 1));
  const first = tree.querySelector<HTMLElement>("[aria-selected=true]") ?? tree.querySelector<HTMLElement>("[role=treeitem]");
  first?.setAttribute("tabindex", "0");
  tree.addEventListener("keydown", (event) => keys(context, tree, event));
  return tree;
}

function rows(context: Context, visible: Visible, scope: Item, selected: Item | null, level: number): HTMLElement[] {
  const items = visible.shown(scope);
  const around = selected === null ? -1 : items.findIndex((item) => context.model.holds(item, selected));
  const end = Math.max(AT_ONCE, around + 20);
  const found = items.slice(0, end).flatMap((item) => row(context, visible, item, selected, level));
  if (items.length > end) found.push(more(context, visible, items.slice(end), selected, level));
  return found;
}

function row(context: Context, visible: Visible, item: Item, selected: Item | null, level: number): HTMLElement[] {
  const { model, expanded } = context;
  const isScope = model.isScope(item);
  const open = isScope && expanded.has(item);
  const label = model.label(item);
  const found = h(
    "div",
    {
      role: "treeitem",
      class: "outline-row",
      tabindex: -1,
      style: `--level:${level}`,
      "aria-level": level,
      "aria-expanded": isScope ? String(open) : undefined,
      "aria-selected": String(item === selected),
      "data-item": item,
      onclick: () => context.jump(item),
    },
    h("span", { class: "twisty", "aria-hidden": true, onclick: (event) => {
      event.stopPropagation();
      if (isScope) context.toggle(item);
    } }, isScope ? (open ? "\u25be" : "\u25b8") : ""),
    h("i", { class: `dot cat-${categoryOf(model, item)}` }),
    h("bdi", {}, label),
    h("small", {}, isScope ? "" : clean(model.op(item))),
  );
  return open ? [found, ...rows(context, visible, item, selected, level + 1)] : [found];
}

function more(context: Context, visible: Visible, rest: Item[], selected: Item | null, level: number): HTMLElement {
  const button = h("button", { class: "more" }, `${rest.length.toLocaleString("en")} more`);
  button.addEventListener("click", () => {
    const next = rest.slice(0, 1000).flatMap((item) => row(context, visible, item, selected, level));
    if (rest.length > 1000) next.push(more(context, visible, rest.slice(1000), selected, level));
    button.replaceWith(...next);
  });
  return button;
}

/** The keys of a tree: up and down, right opens, left closes or leads out. */
function keys(context: Context, tree: HTMLElement, event: KeyboardEvent): void {
  const row = (event.target as Element).closest<HTMLElement>("[role=treeitem]");
  if (row === null) return;
  const item = Number(row.dataset["item"]);
  const all = [...tree.querySelectorAll<HTMLElement>("[role=treeitem]")];
  const go = (to: HTMLElement | undefined): void => {
    if (to === undefined) return;
    row.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
  const open = row.getAttribute("aria-expanded");
  const place = all.indexOf(row);
  if (event.key === "ArrowDown") go(all[place + 1]);
  else if (event.key === "ArrowUp") go(all[place - 1]);
  else if (event.key === "Home") go(all[0]);
  else if (event.key === "End") go(all[all.length - 1]);
  else if (event.key === "ArrowRight" && open === "true") go(all[place + 1]);
  else if ((event.key === "ArrowRight" && open === "false") || (event.key === "ArrowLeft" && open === "true")) context.toggle(item);
  else if (event.key === "ArrowLeft") go(all.find((other) => Number(other.dataset["item"]) === context.model.parent(item)));
  else if (event.key === "Enter" || event.key === " ") context.jump(item);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
