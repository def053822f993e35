/** One graph on the screen: its drawing, what part of it is seen, and clicks on it. */

import { h, s } from "../common/dom.ts";
import { drawn, type Emphasis, type Look } from "./draw.ts";
import { type Laid, Layouts } from "./layout.ts";
import { Minimap } from "./minimap.ts";
import type { Item, Model } from "./model.ts";
import { save } from "./picture.ts";
import { boxAt, type Link, linkAt, type Placing, type Scene, sceneOf } from "./scene.ts";
import { NodeKind } from "./schema.ts";
import type { Place, Switches } from "./state.ts";
import { count } from "./text.ts";
import { carries, type Trace, traced } from "./trace.ts";
import { Viewport } from "./viewport.ts";
import { source, Visible } from "./visible.ts";

export interface Asked {
  select(item: Item | null): void;
  toggle(scope: Item): void;
  /** Shows what a scope holds as a list. */
  list(scope: Item): void;
  /** Tells of a line that was clicked. */
  line(link: Link): void;
}

/** What to bring into view after a change. */
export type Aim = { fit: true } | { item: Item } | { keep: Item } | undefined;

const READABLE = 0.75;
/** Pixels of a window in which one column is scrolled more easily than several are read. */
const NARROW = 440;
/** Scale from which on titles, made large, can be read. */
const LEGIBLE = 0.22;
/** Sides of a printed page in pixels, about. */
const PAPER = 900;
/** Sides of a picture in pixels, above which it is drawn as from afar. */
const LARGE = 6000;
/** Milliseconds between the presses of a double click. */
const TWICE = 400;
/** Pixels from a line within which a click means it. */
const NEAR = 7;
/** Closed scopes that are placed ahead, and the most boxes in one: a tenth of a second of the worker each, at worst. */
const AHEAD = 24;
const SMALL = 80;

export class Pane {
  readonly element: HTMLElement;
  visible: Visible;
  scene: Scene | undefined;
  look: (item: Item) => Look = () => ({});
  /** Whether all that leads to the selected item and follows from it is to stand out. */
  isTracing: () => boolean = () => false;
  /** Told what will be drawn. */
  beforeDrawing: (scene: Scene) => void = () => undefined;
  readonly viewport: Viewport;
  private layouts: Layouts;
  private readonly svg: SVGSVGElement;
  private readonly minimap: Minimap;
  private readonly notice: HTMLElement;
  private selected: Item | null = null;
  private tracedItem: Item | undefined;
  private trace: Trace | undefined;
  private line: Link | undefined;
  private latest = 0;
  private frame = 0;
  private lastPress = { time: -Infinity, x: 0, y: 0 };
  /** The window and scale that are drawn; panning inside it only moves them. */
  private inDocument = { left: 0, top: 0, right: 0, bottom: 0, scale: 0 };
  private plane: SVGGElement;

  constructor(
    readonly model: Model,
    private switches: Switches,
    private readonly asked: Asked,
  ) {
    this.visible = new Visible(model, switches);
    this.layouts = this.newLayouts();
    this.plane = s("g", {});
    this.svg = s("svg", { class: "canvas", tabindex: 0, role: "application", "aria-label": `Graph ${model.graph.label}. Arrow keys follow edges, Enter opens a scope. The outline in the panel is the same as a list.` });
    this.svg.append(this.plane);
    this.notice = h("div", { class: "notice", hidden: true });
    this.viewport = new Viewport(this.svg, () => this.viewMoved());
    this.minimap = new Minimap(this.viewport);
    this.element = h("section", { class: "pane", "aria-label": model.graph.label }, this.svg, this.minimap.element, this.notice);
    this.svg.addEventListener("pointerup", (event) => this.pressed(event));
    // A ring around all of the graph helps who uses keys, and only them.
    this.svg.addEventListener("pointerdown", () => this.svg.classList.add("by-pointer"));
    this.svg.addEventListener("keydown", () => this.svg.classList.remove("by-pointer"));
    new ResizeObserver(() => {
      this.viewport.resized();
      this.viewMoved();
    }).observe(this.svg);
  }

  /** Other switches: other scopes, all placed anew. */
  switch(switches: Switches): void {
    this.visible = new Visible(this.model, switches);
    this.layouts = this.newLayouts();
    this.switches = switches;
    this.tracedItem = undefined;
  }

  private newLayouts(): Layouts {
    return new Layouts(this.visible, () => {
      const { width, height } = this.viewport.size();
      return height > 0 && width >= NARROW ? width / height : 0;
    });
  }

  /** Draws more children of a scope. */
  more(scope: Item): void {
    this.visible.more(scope);
  }

  async show(place: Place, aim: Aim): Promise<void> {
    const ticket = ++this.latest;
    const laid: Laid = await this.layouts.of(place.expanded);
    if (ticket !== this.latest) return; // overtaken
    const before = aim !== undefined && "keep" in aim ? this.scene?.byItem.get(aim.keep) : undefined;
    this.scene = sceneOf(this.visible, laid);
    this.line = undefined;
    this.selected = place.selected;
    this.minimap.show(this.scene);
    this.say(laid);
    this.aim(aim, before);
    this.redraw();
    void this.foresee(ticket);
  }

  /** Places the closed scopes that are drawn while nobody waits, one by one, until something else is shown. */
  private async foresee(ticket: number): Promise<void> {
    for (const scope of this.closed().slice(0, AHEAD)) {
      await idle();
      if (ticket !== this.latest) return;
      await this.layouts.foresee(scope);
    }
  }

  /** Closed scopes of few boxes, those in opened ones first. */
  private closed(): Item[] {
    const { model } = this;
    const shut = (this.scene?.places ?? []).filter(({ item, expanded }) => !expanded && model.isScope(item) && model.childrenOf(item).length <= SMALL);
    return shut.sort((a, b) => b.depth - a.depth).map(({ item }) => item);
  }

  select(item: Item | null, aim: Aim): void {
    this.selected = item;
    this.line = undefined;
    this.aim(aim, undefined);
    this.redraw();
  }

  /** Draws a line as the one that the panel tells of. */
  choose(line: Link): void {
    this.line = line;
    this.redraw();
  }

  get hasLine(): boolean {
    return this.line !== undefined;
  }

  fit(smooth = true): void {
    if (this.scene !== undefined) this.viewport.fit(this.scene, smooth);
  }

  /** For paper: all of the graph, as large as the page allows, whatever is seen on the screen. */
  print(on: boolean): void {
    const scene = this.scene;
    if (scene === undefined) return;
    if (!on) {
      this.svg.removeAttribute("viewBox");
      return this.redraw();
    }
    const plane = this.whole(scene, Math.min(1, PAPER / scene.width, PAPER / scene.height));
    this.plane.replaceWith(plane);
    this.plane = plane;
    this.svg.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
  }

  /** Lets the reader save all of the graph as a picture; null, or why not. */
  async savePicture(name: string, kind: "svg" | "png"): Promise<string | null> {
    if (this.scene === undefined) return null;
    // Bitmaps of large graphs have no room for what stands in a box.
    const scale = kind === "svg" ? 1 : Math.min(1, LARGE / Math.max(this.scene.width, this.scene.height));
    return save(this.whole(this.scene, scale), this.scene, name, kind);
  }

  private whole(scene: Scene, scale: number): SVGGElement {
    const all = { left: 0, top: 0, right: scene.width, bottom: scene.height };
    return drawn(scene, all, scale, this.look, this.emphasis(scene));
  }

  /** Moves the selected box out from below something that covers the lower part. */
  avoid(covered: number): void {
    const place = this.selected === null ? undefined : this.scene?.byItem.get(this.selected);
    if (place === undefined) return;
    const { scale, y } = this.viewport.view;
    const over = (place.y + Math.min(place.height, 90 / scale)) * scale + y + 16 - (this.viewport.size().height - covered);
    if (over > 0) this.viewport.pan(0, -over);
  }

  focus(): void {
    this.svg.focus({ preventScroll: true });
  }

  /** Draws again, for other colours or a new scene. */
  redraw(): void {
    if (this.scene !== undefined) this.beforeDrawing(this.scene);
    this.inDocument.scale = 0;
    this.draw();
  }

  private say(laid: Laid): void {
    const { left, items } = laid.graph;
    this.notice.hidden = left === 0 && items.length > 0;
    if (items.length === 0) this.notice.replaceChildren(h("span", {}, "This graph has no nodes to draw."));
    else if (left > 0) {
      this.notice.replaceChildren(
        h("span", {}, `${count(items.length, "box").replace(/boxs$/, "boxes")} drawn, ${left.toLocaleString("en")} left out: too many to place in one scope.`),
        h("button", { onclick: () => this.asked.list(laid.scope) }, "List all"),
      );
    }
  }

  private aim(aim: Aim, before: Placing | undefined): void {
    if (aim === undefined || this.scene === undefined) return;
    if ("fit" in aim) return this.start();
    if ("keep" in aim) {
      const now = this.scene.byItem.get(aim.keep);
      if (now === undefined || before === undefined) return;
      const { scale, x, y } = this.viewport.view;
      const dx = (before.x + before.width / 2 - now.x - now.width / 2) * scale;
      return this.viewport.set({ scale, x: x + dx, y: y + (before.y - now.y) * scale });
    }
    this.reveal(aim.item);
  }

  /** The whole, or where that is too small to read, its beginning. */
  private start(): void {
    const scene = this.scene!;
    this.viewport.fit(scene);
    const { width } = this.viewport.size();
    if (this.viewport.view.scale >= LEGIBLE) return;
    const scale = Math.min(READABLE, Math.max(0.5, (width - 48) / scene.width));
    const first = this.beginning(scene);
    if (first === undefined) return;
    if (scene.across) return this.startAcross(scene, first);
    const top = this.notice.hidden ? 16 : 76;
    const x = scene.width * scale <= width ? (width - scene.width * scale) / 2 : width / 2 - (first.x + first.width / 2) * scale;
    this.viewport.set({ scale, x, y: top - Math.max(0, first.y - 24) * scale });
  }

  private startAcross({ height: all }: Scene, first: Placing): void {
    const { height } = this.viewport.size();
    const scale = Math.min(READABLE, Math.max(0.5, (height - 48) / all));
    const middle = all * scale <= height ? all / 2 : first.y + first.height / 2;
    this.viewport.set({ scale, x: 16 - Math.max(0, first.x - 24) * scale, y: height / 2 - middle * scale });
  }

  /** The first input, or where there is none, the first box. */
  private beginning(scene: Scene): Placing | undefined {
    const leaves = scene.places.filter((place) => !place.expanded);
    const inputs = leaves.filter(({ item }) => !this.model.isScope(item) && this.model.kind(item) === NodeKind.Input);
    const along = scene.across ? "x" : "y";
    return (inputs.length > 0 ? inputs : leaves).reduce<Placing | undefined>((best, place) => (best === undefined || place[along] < best[along] ? place : best), undefined);
  }

  private reveal(item: Item): void {
    const place = this.scene?.byItem.get(item);
    if (place === undefined) return;
    const { width, height } = this.viewport.size();
    const { scale, x, y } = this.viewport.view;
    const next = Math.max(scale, READABLE);
    const [left, top] = [place.x * scale + x, place.y * scale + y];
    const fits = left > 20 && top > 20 && left + place.width * scale < width - 20 && top + Math.min(place.height * scale, height / 2) < height - 20;
    if (fits && scale >= 0.42) return;
    const middle = Math.min(place.height / 2, height / next / 3);
    this.viewport.center(place.x + place.width / 2, place.y + middle, next);
  }

  private viewMoved(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  /** What is seen, on the plane. */
  private window(): { left: number; top: number; right: number; bottom: number } {
    const { scale, x, y } = this.viewport.view;
    const { width, height } = this.viewport.size();
    return { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  }

  private draw(): void {
    const scene = this.scene;
    if (scene === undefined) return;
    const { scale, x, y } = this.viewport.view;
    const seen = this.window();
    const old = this.inDocument;
    const inside = seen.left >= old.left && seen.right <= old.right && seen.top >= old.top && seen.bottom <= old.bottom;
    const similar = old.scale > 0 && scale / old.scale < 1.3 && old.scale / scale < 1.3;
    if (!inside || !similar) {
      const [dx, dy] = [(seen.right - seen.left) / 2, (seen.bottom - seen.top) / 2];
      this.inDocument = { left: seen.left - dx, right: seen.right + dx, top: seen.top - dy, bottom: seen.bottom + dy, scale };
      const plane = drawn(scene, this.inDocument, scale, this.look, this.emphasis(scene));
      this.plane.replaceWith(plane);
      this.plane = plane;
    }
    this.plane.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.minimap.move(seen);
  }

  /** Links on which values of the selected item come and go, across all borders on their way. */
  private emphasis(scene: Scene): Emphasis {
    const [into, outOf] = [new Set<Link>(), new Set<Link>()];
    const item = this.selected;
    const { line } = this;
    if (item === null || item === this.model.root) return { selected: item, into, outOf, line };
    if (this.isTracing()) return { ...this.tracedLinks(scene, item, this.traced()!), line };
    const nodes = this.model.nodesOf(item);
    const [comes, goes] = [new Set<number>(), new Set<number>()];
    const within = new Set<number>(nodes);
    const { from, to } = this.model.graph.edges;
    for (const node of nodes) {
      for (const edge of this.model.edgesInto(node)) if (!within.has(from[edge]!)) comes.add(from[edge]!);
      for (const edge of this.model.edgesOutOf(node)) if (!within.has(to[edge]!)) goes.add(node);
    }
    const { model } = this;
    for (const link of scene.links) {
      const sources = link.tensors.map((key) => source(key).node);
      const leaves = link.to !== link.from && model.holds(link.to, link.from); // over the border of link.to
      const here = model.holds(link.to, item);
      if (here !== leaves && sources.some((node) => comes.has(node))) into.add(link);
      const outside = !(model.holds(item, link.from) && model.holds(item, link.to));
      if (outside && sources.some((node) => goes.has(node))) outOf.add(link);
    }
    return { selected: item, into, outOf, line };
  }

  private tracedLinks({ links }: Scene, item: Item, { before, after }: Trace): Omit<Emphasis, "line"> {
    const { model } = this;
    const own = new Set<number>(model.nodesOf(item));
    const outside = links.filter(({ from, to }) => !(model.holds(item, from) && model.holds(item, to)));
    const along = (sources: Set<number>, readers: Set<number>) => new Set(outside.filter((link) => carries(model, link, sources, readers)));
    return { selected: item, into: along(before, new Set([...before, ...own])), outOf: along(new Set([...after, ...own]), after) };
  }

  /** What leads to the selected item and follows from it. */
  traced(): Trace | undefined {
    const item = this.selected;
    if (item === null || item === this.model.root) return undefined;
    if (this.tracedItem !== item) [this.tracedItem, this.trace] = [item, traced(this.model, item, this.switches.control)];
    return this.trace;
  }

  /** Whether an item has no part in what is traced. */
  isAside(item: Item): boolean {
    const trace = this.traced();
    if (trace === undefined || this.model.holds(item, this.selected!) || this.model.holds(this.selected!, item)) return false;
    return !this.model.nodesOf(item).some((node) => trace.before.has(node) || trace.after.has(node));
  }

  private hit(event: MouseEvent): Placing | undefined {
    const { x, y } = this.viewport.toPlane(event.clientX, event.clientY);
    return this.scene === undefined ? undefined : boxAt(this.scene, x, y);
  }

  private lineAt(event: MouseEvent): Link | undefined {
    const { x, y } = this.viewport.toPlane(event.clientX, event.clientY);
    return this.scene === undefined ? undefined : linkAt(this.scene, x, y, NEAR / this.viewport.view.scale);
  }

  /** A click, or the second of two: by pointers, since a click is lost where what it began on was drawn anew. */
  private pressed(event: PointerEvent): void {
    if (this.viewport.dragged || event.button !== 0) return;
    const { time, x, y } = this.lastPress;
    const twice = event.timeStamp - time < TWICE && Math.hypot(event.clientX - x, event.clientY - y) < 12;
    this.lastPress = { time: twice ? -Infinity : event.timeStamp, x: event.clientX, y: event.clientY };
    const place = this.hit(event);
    this.focus();
    const line = place === undefined || place.expanded ? this.lineAt(event) : undefined;
    if (line !== undefined && !twice) return this.asked.line(line);
    if (place === undefined) return this.asked.select(null);
    if (twice && this.model.isScope(place.item)) return this.asked.toggle(place.item);
    const { y: at } = this.viewport.toPlane(event.clientX, event.clientY);
    if (place.left > 0 && at - place.y < 42 && at - place.y > 24) return this.asked.list(place.item);
    this.asked.select(place.item);
  }
}

/** Waits until the page has nothing else to do. */
function idle(): Promise<void> {
  return new Promise((done) => {
    if ("requestIdleCallback" in window) window.requestIdleCallback(() => done(), { timeout: 1000 });
    else setTimeout(done, 100); // Safari
  });
}
