/** Views that the reader keeps: what is open, selected, coloured, and which part of the plane is seen.
 *
 * Kept by the browser for the next time, where it lets a page do so; else as long as the page is open.
 */

import { h } from "../common/dom.ts";
import type { App } from "./app.ts";
import { clean } from "./text.ts";
import type { View } from "./viewport.ts";

export interface Kept {
  name: string;
  graph: number;
  places: { expanded: number[]; selected: number | null }[];
  overlay: string | null;
  view: View;
}

const MOST = 50;

export class Bookmarks {
  readonly element = h("div", { class: "bookmarks" });
  private readonly key: string;
  private kept: Kept[];

  constructor(private readonly app: App) {
    // Numbers of items hold for this very page only.
    const { title, strings } = app.data;
    this.key = `thinflow ${title} ${strings.length} ${app.models.map(({ size, scopes }) => `${size}+${scopes}`).join(" ")}`;
    this.kept = this.read();
    this.fill();
  }

  private fill(): void {
    const add = h("button", { class: "quiet", title: "Keep what is open, selected and seen now", onclick: () => this.add() }, "Keep this view");
    const rows = this.kept.map((kept, i) =>
      h(
        "span",
        { class: "bookmark" },
        h("button", { class: "quiet", onclick: () => void this.app.showKept(kept) }, clean(kept.name)),
        h("button", { class: "quiet", "aria-label": `Forget ${clean(kept.name)}`, onclick: () => this.change(this.kept.filter((_, j) => j !== i)) }, "\u00d7"),
      ),
    );
    this.element.replaceChildren(add, ...rows);
  }

  private add(): void {
    const kept = this.app.keep(this.kept.length + 1);
    if (kept !== undefined) this.change([...this.kept, kept].slice(-MOST));
  }

  private change(kept: Kept[]): void {
    this.kept = kept;
    try {
      localStorage.setItem(this.key, JSON.stringify(kept));
    } catch {
      // Inside of a notebook or a mail there is no storage.
    }
    this.fill();
  }

  private read(): Kept[] {
    try {
      const found: unknown = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      return Array.isArray(found) ? (found as Kept[]) : [];
    } catch {
      return [];
    }
  }
}
