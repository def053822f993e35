/** The search field with its list of hits. */

import { h } from "../common/dom.ts";
import type { App } from "./app.ts";
import { categoryOf } from "./categories.ts";
import type { Item } from "./model.ts";
import { parsed, type Query, search } from "./query.ts";
import { clean } from "./text.ts";

const LISTED = 100;
const LONGEST = 40;
const PAUSE = 120;

function cut(text: string): string {
  const said = clean(text);
  return said.length > LONGEST ? `${said.slice(0, LONGEST)}\u2026` : said;
}

export class SearchBar {
  readonly element: HTMLElement;
  private readonly input = h("input", {
    type: "search",
    placeholder: "Search   /",
    "aria-label": "Search by name, op, shape, dtype or attribute",
    "aria-controls": "hits",
    autocomplete: "off",
    spellcheck: "false",
  });
  private readonly count = h("output", { class: "count", "aria-live": "polite" });
  private readonly list = h("div", { class: "hits", id: "hits", hidden: true });
  private hits: Item[] = [];
  private query: Query | undefined;
  private at = -1;
  private timer = 0;
  private asked = "";

  constructor(private readonly app: App) {
    const previous = h("button", { title: "Previous hit (Shift+Enter)", "aria-label": "Previous hit", onclick: () => this.step(-1) }, "\u2191");
    const next = h("button", { title: "Next hit (Enter)", "aria-label": "Next hit", onclick: () => this.step(1) }, "\u2193");
    this.element = h("search", { class: "search" }, h("span", { class: "field" }, this.input, this.count), previous, next, this.list);
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.run(), PAUSE);
    });
    this.input.addEventListener("focus", () => (this.list.hidden = this.list.childElementCount === 0));
    this.input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.element.contains(event.target as Node)) this.list.hidden = true;
    });
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      this.step(event.shiftKey ? -1 : 1);
      this.list.hidden = this.hits.length > 0; // it would lie on the hit that is shown
    } else if (event.key === "ArrowDown") this.list.hidden = this.list.childElementCount === 0;
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  private leave(): void {
    if (!this.list.hidden) this.list.hidden = true;
    else if (this.input.value !== "") {
      this.input.value = "";
      this.run();
    } else this.app.pane?.focus();
  }

  private run(): void {
    clearTimeout(this.timer);
    this.asked = this.input.value;
    this.at = -1;
    const { model } = this.app;
    try {
      this.query = parsed(this.asked);
      this.hits = this.query === undefined || model === undefined ? [] : search(model, this.query);
      this.input.setCustomValidity("");
    } catch (problem) {
      this.hits = [];
      this.input.setCustomValidity(String((problem as Error).message));
    }
    this.app.setHits(this.hits);
    this.show();
  }

  private step(by: number): void {
    if (this.input.value !== this.asked) this.run();
    if (this.hits.length === 0) return;
    this.at = this.at < 0 ? (by > 0 ? 0 : this.hits.length - 1) : (this.at + by + this.hits.length) % this.hits.length;
    this.open(this.at);
  }

  private open(place: number): void {
    this.at = place;
    void this.app.select(this.hits[place]!);
    this.show();
  }

  private show(): void {
    const bad = this.input.validationMessage;
    const total = this.hits.length.toLocaleString("en");
    const asked = this.asked.trim() !== "";
    this.count.textContent = !asked ? "" : bad !== "" ? "not a pattern" : this.at < 0 ? total : `${(this.at + 1).toLocaleString("en")} / ${total}`;
    this.count.title = bad;
    const first = Math.max(0, Math.min(this.at - 10, this.hits.length - LISTED));
    this.list.replaceChildren(...this.hits.slice(first, first + LISTED).map((item, i) => this.row(item, first + i)));
    if (this.hits.length > first + LISTED) this.list.append(h("p", { class: "muted" }, `${(this.hits.length - first - LISTED).toLocaleString("en")} more: say more of it, or go on with Enter`));
    if (asked && this.hits.length === 0) this.list.append(h("p", { class: "muted" }, bad || "Nothing matches. Try op:Conv, shape:1x224, dtype:int8, attr:padding=SAME or /a pattern/."));
    this.list.hidden = !asked || document.activeElement !== this.input;
    this.list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  private row(item: Item, place: number): HTMLElement {
    const model = this.app.model!;
    const kind = model.isScope(item) ? "scope" : clean(model.op(item));
    return h(
      "button",
      { class: "hit-row", "aria-current": place === this.at ? "true" : undefined, onclick: () => this.open(place) },
      h("i", { class: `dot cat-${categoryOf(model, item)}` }),
      h("bdi", {}, clean(model.name(item))),
      h("small", {}, [...(this.query?.reasons(model, item) ?? []).map(cut), kind].join(" \u00b7 ")),
    );
  }
}
