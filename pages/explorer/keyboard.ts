/** Keys: along edges, into scopes, and to the tools. */

import type { App } from "./app.ts";
import type { Chrome } from "./chrome.ts";
import type { Item } from "./model.ts";
import { onItsSide, type Placing } from "./scene.ts";

export function listenToKeys(app: App, chrome: Chrome): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]") !== null) return;
    if (event.altKey) return alternative(app, event);
    if (target.closest("input, select, textarea") !== null) return;
    const pressable = target.closest("button, a, summary, [role=treeitem]") !== null;
    if (pressable && (event.key === "Enter" || event.key === " ")) return;
    if (act(app, chrome, event.shiftKey && event.key === "Enter" ? "ShiftEnter" : event.key)) event.preventDefault();
  });
}

function alternative(app: App, event: KeyboardEvent): void {
  if (event.key === "ArrowLeft") app.past.back();
  else if (event.key === "ArrowRight") app.past.forward();
  else return;
  event.preventDefault();
}

/** Does what a key stands for; whether it stands for anything. */
function act(app: App, chrome: Chrome, key: string): boolean {
  const { pane, model } = app;
  if (key === "/") chrome.search.focus();
  else if (key === "?") chrome.toggleHelp();
  else if (pane === undefined || model === undefined) return false;
  else if (key === "f") pane.fit();
  else if (key === "+" || key === "=") pane.viewport.zoomIn();
  else if (key === "-" || key === "_") pane.viewport.zoomOut();
  else if (key === "Escape") escape(app, chrome);
  else if (key === "t") app.toggleTrace();
  else if (key === "ShiftEnter") openAll(app);
  else if (key === "Enter" || key === " ") open(app);
  else if (key === "n" || key === "p") void app.nextDifference(key === "n" ? 1 : -1);
  else if (key === "d") void app.setSwitch("across", !app.switches.across);
  else if (key.startsWith("Arrow")) move(app, key.slice(5));
  else return false;
  return true;
}

function escape(app: App, chrome: Chrome): void {
  if (document.body.classList.contains("drawer-open")) chrome.toggleDrawer(false);
  else void app.up();
}

function open(app: App): void {
  const { selected } = app.place;
  if (selected !== null && app.model!.isScope(selected)) void app.toggle(selected);
}

function openAll(app: App): void {
  const { selected } = app.place;
  if (selected !== null && app.model!.isScope(selected)) void app.expandIn(selected);
}

function move(app: App, way: string): void {
  const scene = app.pane?.scene;
  if (scene === undefined) return;
  const { selected } = app.place;
  const from = selected === null ? undefined : scene.byItem.get(selected);
  const turn = scene.across ? ON_ITS_SIDE[way]! : way;
  const next = from === undefined ? scene.places[0] : turn === "Up" || turn === "Down" ? along(app, from, turn) : beside(app, from, turn);
  if (next !== undefined) void app.select(next.item);
}

/** What a key means, in a drawing whose values go down, where they go to the right. */
const ON_ITS_SIDE: Record<string, string> = { Right: "Down", Left: "Up", Down: "Right", Up: "Left" };

function upright(app: App, place: Placing): Placing {
  return app.pane!.scene!.across ? onItsSide(place) : place;
}

/** Over an edge: the nearest box that a value goes to, or comes from. An open scope is entered. */
function along(app: App, from: Placing, way: "Up" | "Down"): Placing | undefined {
  const { model } = app.pane!;
  const down = way === "Down";
  const within = new Set<number>(model.nodesOf(from.item));
  const seen = new Map<Item, Placing>();
  const { edges } = model.graph;
  for (const node of within) {
    for (const edge of down ? model.edgesOutOf(node) : model.edgesInto(node)) {
      const other = down ? edges.to[edge]! : edges.from[edge]!;
      if (within.has(other) || (edges.port[edge]! < 0 && !app.switches.control)) continue;
      const place = boxOf(app, other);
      if (place !== undefined) seen.set(place.item, place);
    }
  }
  seen.delete(from.item);
  if (from.expanded && down && seen.size === 0) return childOf(app, from);
  const here = upright(app, from);
  const distance = (place: Placing) => {
    const { x, y, width } = upright(app, place);
    return Math.abs(y - here.y) + Math.abs(x + width / 2 - here.x - here.width / 2);
  };
  return [...seen.values()].sort((a, b) => distance(a) - distance(b))[0];
}

function childOf(app: App, from: Placing): Placing | undefined {
  return app.pane!.scene!.places.find((place) => app.model!.parent(place.item) === from.item);
}

/** The box that stands for a node: itself, or the closed scope around it. */
function boxOf(app: App, node: Item): Placing | undefined {
  const { scene, model } = app.pane!;
  for (let item = node; item >= 0; item = model.parent(item)) {
    const place = scene?.byItem.get(item);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** The nearest box to the left or right in the same scope, at about the same height; else the next in running order. */
function beside(app: App, from: Placing, way: string): Placing | undefined {
  const scene = app.pane!.scene!;
  const parent = app.model!.parent(from.item);
  const sign = way === "Right" ? 1 : -1;
  const siblings = scene.places.filter((place) => app.model!.parent(place.item) === parent);
  const here = upright(app, from);
  const near = siblings
    .map((place) => ({ place, ...upright(app, place) }))
    .filter(({ x, y, height }) => sign * (x - here.x) > 0 && y < here.y + here.height && y + height > here.y)
    .sort((a, b) => sign * (a.x - b.x));
  return near[0]?.place ?? siblings[siblings.indexOf(from) + sign];
}
