/** Tables to be sorted by a click on a column and filtered by words and choices; rows tell more when they are opened. */

import { h } from "../../common/dom.ts";
import type { Cell, Listed, Listing } from "../schema.ts";
import { isShort, scrolling, shown } from "./table.ts";

/** Rows drawn at first: a collection may have thousands, and nobody reads them all. */
const MOST_ROWS = 300;

interface View {
  words: string[];
  /** Place of a column -> the text that its cell must be. */
  chosen: Map<number, string>;
  /** Place of the column sorted by; -1 for the order of the file. */
  by: number;
  falling: boolean;
  all: boolean;
}

export function listing(block: Listing): HTMLElement {
  const view: View = { words: [], chosen: new Map(), by: -1, falling: false, all: false };
  const numbers = block.columns.map((_, at) => block.rows.every(({ cells }) => typeof cells[at] !== "string"));
  const body = h("tbody");
  const told = h("span", { role: "status" });
  const heads = block.columns.map((column, at) =>
    h("th", { class: numbers[at] ? "number" : "", scope: "col", "aria-sort": "none" }, h("button", { type: "button", onclick: () => sort(at) }, column.title)),
  );

  const draw = (): void => {
    const rows = selected(block.rows, view);
    const drawn = view.all ? rows : rows.slice(0, MOST_ROWS);
    body.replaceChildren(...drawn.map((row) => line(row, block, numbers)));
    const more = rows.length - drawn.length;
    told.textContent = `${rows.length} of ${block.rows.length}`;
    rest.hidden = more === 0;
    rest.textContent = `Show ${more} more`;
  };
  const sort = (at: number): void => {
    // Of numbers the largest are looked for first, of names the first.
    view.falling = view.by === at ? !view.falling : numbers[at] === true;
    view.by = at;
    heads.forEach((head, place) => head.setAttribute("aria-sort", place !== at ? "none" : view.falling ? "descending" : "ascending"));
    draw();
  };
  const rest = h("button", { type: "button", onclick: () => ((view.all = true), draw()) });
  const search = h("input", {
    type: "search",
    placeholder: "Filter…",
    "aria-label": "Filter rows by words",
    oninput: () => ((view.words = search.value.toLowerCase().split(/\s+/).filter(Boolean)), draw()),
  });

  draw();
  return h(
    "div",
    { class: "listing" },
    h("div", { class: "filters" }, search, ...block.choices.map((at) => choice(block, at, view, draw)), told),
    scrolling(h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body), "list"),
    rest,
  );
}

/** A menu of the texts of a column. */
function choice(block: Listing, at: number, view: View, draw: () => void): HTMLElement | null {
  const texts = [...new Set(block.rows.map(({ cells }) => String(cells[at] ?? "")))].sort();
  if (texts.length < 2) return null;
  const title = block.columns[at]?.title ?? "";
  const menu = h(
    "select",
    {
      "aria-label": title,
      onchange: () => {
        // The first is for all of them; a text may be empty, too.
        if (menu.selectedIndex === 0) view.chosen.delete(at);
        else view.chosen.set(at, texts[menu.selectedIndex - 1] ?? "");
        draw();
      },
    },
    h("option", {}, `${title}: all`),
    ...texts.map((text) => h("option", {}, `${title}: ${text || "not tried"}`)),
  );
  return menu;
}

/** The rows that are wanted, in the order that is wanted. */
function selected(rows: Listed[], view: View): Listed[] {
  const found = rows.filter(
    (row) => [...view.chosen].every(([at, text]) => String(row.cells[at] ?? "") === text) && view.words.every((word) => has(row, word)),
  );
  if (view.by < 0) return found;
  const direction = view.falling ? -1 : 1;
  return found.sort((a, b) => compared(a.cells[view.by] ?? null, b.cells[view.by] ?? null, direction));
}

const has = (row: Listed, word: string): boolean => [...row.cells, ...row.about].some((text) => String(text).toLowerCase().includes(word));

/** What is not known stands last, whichever way the column is sorted. */
function compared(a: Cell, b: Cell, direction: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return direction * (a - b);
  return direction * String(a).localeCompare(String(b), "en", { numeric: true });
}

function line(row: Listed, block: Listing, numbers: boolean[]): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const cells = row.cells.map((cell, at) => {
    const kind = numbers[at] ? "number" : block.columns[at]?.code ? "mono" : "";
    const text = shown(cell, block.columns[at]);
    return h("td", { class: `${kind} ${isShort(cell) ? "short" : ""}` }, at === 0 && row.about.length > 0 ? opener(text) : text);
  });
  fragment.append(h("tr", {}, ...cells));

  function opener(text: string): HTMLElement {
    const button = h("button", { type: "button", class: "open", "aria-expanded": "false", onclick: toggle }, text);
    let about: HTMLElement | null = null;
    function toggle(): void {
      if (about === null) {
        about = h("tr", { class: "why" }, h("td", { colspan: block.columns.length }, h("ul", {}, ...row.about.map((each) => h("li", {}, each)))));
        button.closest("tr")?.after(about);
      } else {
        about.remove();
        about = null;
      }
      button.setAttribute("aria-expanded", String(about !== null));
    }
    return button;
  }
  return fragment;
}
