/** Views that the reader keeps: what is open, selected, coloured, and which part of the plane is seen.
 *
 * Kept by the browser for the next time, where it lets a page do so; else as long as the page is open.
 */

import { h } from "../common/dom.ts";
import type { App } from "./app.ts";
import type { Model } from "./model.ts";
import { isRecord } from "./nodedata.ts";
import { clean } from "./text.ts";
import type { View } from "./viewport.ts";

export interface Kept {
  name: string;
  graph: number;
  places: { expanded: number[]; selected: number | null }[];
  overlay: string | null;
  view: View;
}

/** Of one page, the latest: more rows than anybody reads, and far from what a browser stores for all pages. */
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
      return Array.isArray(found) ? found.filter((one) => isKept(one, this.app.models)) : [];
    } catch {
      return [];
    }
  }
}

/** Whether it is a view of these graphs: another page, or a hand, may have written under the same key. */
function isKept(found: unknown, models: readonly Model[]): found is Kept {
  if (!isRecord(found) || !isRecord(found["view"]) || !Array.isArray(found["places"])) return false;
  const { name, graph, places, overlay, view } = found;
  const isItem = (item: unknown, model: Model) => Number.isInteger(item) && Number(item) >= 0 && Number(item) < model.size + model.scopes;
  const isPlace = (place: unknown, i: number): boolean => {
    const model = models[i]!;
    if (!isRecord(place) || !Array.isArray(place["expanded"])) return false;
    return place["expanded"].every((item) => isItem(item, model)) && (place["selected"] === null || isItem(place["selected"], model));
  };
  const seen = [view["scale"], view["x"], view["y"]].every(Number.isFinite) && Number(view["scale"]) > 0;
  const said = typeof name === "string" && (overlay === null || typeof overlay === "string");
  return seen && said && models[Number(graph)] !== undefined && typeof graph === "number" && places.length === models.length && places.every(isPlace);
}
