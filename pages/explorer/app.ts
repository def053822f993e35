/** Holds the reader's choices, and brings the screen in line with them after each. */

import { h } from "../common/dom.ts";
import type { Kept } from "./bookmarks.ts";
import { Chrome } from "./chrome.ts";
import { legend } from "./legend.ts";
import { levels, withinGuard } from "./levels.ts";
import { itemOf, parse, written } from "./link.ts";
import { type Item, Model } from "./model.ts";
import { outline } from "./outline.ts";
import { Painted } from "./overlays.ts";
import { type Aim, Pane } from "./pane.ts";
import { type Context, details } from "./panel.ts";
import { lineDetails } from "./lines.ts";
import { nodeData } from "./nodedata.ts";
import type { Link } from "./scene.ts";
import { Past } from "./history.ts";
import type { Document } from "./schema.ts";
import type { Place, Snapshot, Switches } from "./state.ts";
import { clean, count } from "./text.ts";
import { type Difference, Twins } from "./twins.ts";

export class App {
  readonly models: Model[];
  readonly twins: Twins | undefined;
  readonly switches: Switches = { control: false, constants: false, across: false, attributes: "" };
  active = 0;
  overlay: string | null = null;
  /** What leads to the selected item, and follows from it, stands out. */
  tracing = false;
  readonly past: Past;
  /** Found by a search; drawn with a mark. */
  hits = new Set<Item>();
  private readonly panes: (Pane | undefined)[];
  private places: Place[];
  private readonly chrome: Chrome;
  private readonly painted: (Painted[] | undefined)[];
  private difference = -1;

  constructor(readonly data: Document) {
    this.models = data.graphs.map((graph) => new Model(data, graph));
    this.panes = this.models.map(() => undefined);
    this.painted = this.models.map(() => undefined);
    this.places = this.models.map((model) => ({ expanded: firstLook(model), selected: null }));
    if (data.comparison !== undefined && this.models.length > 1) {
      this.twins = new Twins([this.models[0]!, this.models[1]!], data.comparison);
    }
    this.overlay = data.overlay || null;
    this.chrome = new Chrome(this);
    this.past = new Past((snapshot) => this.restore(snapshot));
    window.addEventListener("hashchange", () => {
      if (history.state === null) void this.follow(location.hash);
    });
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", () => this.recolour());
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
  }

  get model(): Model | undefined {
    return this.models[this.active];
  }

  get place(): Place {
    return this.places[this.active]!;
  }

  get pane(): Pane | undefined {
    return this.panes[this.active];
  }

  /** Whether the graph is one of the two that stand side by side. */
  comparing(graph = this.active): boolean {
    return this.twins !== undefined && graph < 2;
  }

  /** Graphs on the screen: the two that are compared, or the chosen one. */
  private get seen(): number[] {
    return this.comparing() ? [0, 1] : [this.active];
  }

  async start(): Promise<void> {
    if (this.model === undefined) return this.chrome.empty();
    await this.draw({ fit: true });
    await this.follow(location.hash);
    this.refresh();
    this.past.replace(this.snapshot(), location.hash || "#");
    document.documentElement.dataset["ready"] = "true";
    painted("explorer-first-paint", 0);
  }

  /** For paper: light whatever the screen is, and turned where the graphs are wider than tall. */
  private print(on: boolean): void {
    const panes = this.shown();
    if (on) document.documentElement.dataset["printing"] = "true";
    else delete document.documentElement.dataset["printing"];
    const [width, height] = [panes.reduce((sum, { scene }) => sum + (scene?.width ?? 0), 0), Math.max(0, ...panes.map(({ scene }) => scene?.height ?? 0))];
    document.body.classList.toggle("wide", on && width > height);
    panes.forEach((pane) => pane.print(on));
    this.refresh(); // colours of the legend
  }

  /** Selects an item, opening what it is inside of; its twin in the other graph, too. */
  async select(item: Item | null, graph = this.active, how: { aim?: Aim; silent?: boolean } = {}): Promise<void> {
    this.active = graph;
    const changed = this.openAround(graph, item);
    this.places[graph] = { ...this.place, selected: item };
    const aim = how.aim ?? (item === null ? undefined : { item });
    await this.update(graph, changed, aim);
    if (this.comparing()) await this.selectTwin(graph, item);
    if (!how.silent) this.remember();
    this.refresh();
  }

  async toggle(scope: Item, graph = this.active): Promise<void> {
    this.active = graph;
    const begun = performance.now();
    const open = !this.place.expanded.has(scope);
    this.places[graph] = { expanded: this.toggled(this.models[graph]!, this.place, scope, open), selected: scope };
    await this.update(graph, true, { keep: scope });
    painted("explorer-toggle", begun);
    const twin = this.comparing() ? this.twins!.twin(graph, scope) : undefined;
    if (twin !== undefined) {
      const other = 1 - graph;
      const place = this.places[other]!;
      this.places[other] = { expanded: this.toggled(this.models[other]!, place, twin, open), selected: twin };
      await this.update(other, true, { keep: twin });
    }
    this.remember();
    this.refresh();
  }

  /** Opens all scopes down to a level; 0 closes all. */
  async expandTo(level: number): Promise<void> {
    for (const graph of this.seen) {
      const model = this.models[graph]!;
      const { expanded, left } = withinGuard(model, level);
      this.places[graph] = { ...this.places[graph]!, expanded };
      if (left > 0) this.sayClosed(left);
      await this.update(graph, true, { fit: true });
    }
    this.remember();
    this.refresh();
  }

  private sayClosed(scopes: number): void {
    this.say(`${count(scopes, "scope")} stayed closed: open at once, they would be more boxes than one can read.`);
  }

  async openGraph(graph: number): Promise<void> {
    if (graph === this.active) return;
    const first = this.panes[graph] === undefined;
    this.active = graph;
    this.hits.clear();
    await this.draw(first ? { fit: true } : undefined);
    this.remember();
    this.refresh();
  }

  setOverlay(id: string | null): void {
    this.overlay = id;
    this.recolour();
    this.remember();
  }

  async setSwitch<Name extends keyof Switches>(name: Name, value: Switches[Name]): Promise<void> {
    this.switches[name] = value;
    for (const pane of this.panes) pane?.switch(this.switches);
    const { selected } = this.place;
    await this.draw(selected === null || selected === this.model?.root ? { fit: true } : { item: selected });
    this.refresh();
  }

  /** Shows all that leads to what is selected and follows from it, or its neighbours only. */
  toggleTrace(): void {
    this.tracing = !this.tracing;
    if (this.tracing && this.place.selected === null) this.say("Select a box: all that leads to it, and all that follows from it, will stand out.");
    this.recolour();
  }

  /** Opens a scope with all scopes in it. */
  async expandIn(scope: Item, graph = this.active): Promise<void> {
    this.active = graph;
    const { expanded, left } = withinGuard(this.models[graph]!, Infinity, scope);
    const place = this.place;
    this.places[graph] = { expanded: new Set([...place.expanded, ...this.model!.around(scope), scope, ...expanded]), selected: scope };
    if (left > 0) this.sayClosed(left);
    await this.update(graph, true, { keep: scope });
    this.remember();
    this.refresh();
  }

  setHits(hits: Item[]): void {
    this.hits = new Set(hits);
    this.pane?.redraw();
  }

  recolour(): void {
    for (const pane of this.shown()) pane.redraw();
    this.refresh();
  }

  /** A step up: out of the selected item to its scope, then to nothing. */
  async up(): Promise<void> {
    const { selected } = this.place;
    if (this.pane?.hasLine) return this.select(selected);
    if (selected === null || this.model === undefined) return;
    const parent = this.model.parent(selected);
    await this.select(parent < 0 || parent === this.model.root ? null : parent);
  }

  async nextDifference(step: number): Promise<void> {
    const all = this.twins?.differences ?? [];
    if (all.length === 0) return;
    this.difference = (this.difference + step + all.length + (this.difference < 0 && step < 0 ? 1 : 0)) % all.length;
    await this.showDifference(all[this.difference]!);
  }

  async showDifference(difference: Difference): Promise<void> {
    this.difference = this.twins!.differences.indexOf(difference);
    const [a, b] = difference.items;
    await (a !== undefined ? this.select(a, 0) : this.select(b!, 1));
    this.say(`Difference ${this.difference + 1} of ${this.twins!.differences.length}`);
  }

  say(text: string): void {
    this.chrome.say(text);
  }

  /** Colours nodes by data from a file, in the form that Model Explorer reads. */
  addData(text: string, file: string): void {
    const { overlays, problem } = nodeData(text, file, this.models);
    if (problem !== "") return this.say(problem);
    for (const { graph, overlay } of overlays) {
      this.models[graph]!.graph.overlays.push(overlay);
      this.painted[graph] = undefined;
    }
    const mine = overlays.find(({ graph }) => graph === this.active) ?? overlays[0]!;
    this.setOverlay(mine.overlay.id);
    this.say(mine.said);
  }

  /** The present view, to come back to; nothing where there is no graph. */
  keep(number: number): Kept | undefined {
    if (this.pane === undefined) return undefined;
    const { graph, places, overlay } = this.snapshot();
    const { selected } = this.place;
    const name = `${number}: ${selected === null ? "the model" : this.model!.label(selected)}`;
    const listed = places.map((place) => ({ expanded: [...place.expanded], selected: place.selected }));
    return { name, graph, places: listed, overlay, view: { ...this.pane.viewport.view } };
  }

  async showKept(kept: Kept): Promise<void> {
    this.active = kept.graph;
    this.places = kept.places.map(({ expanded, selected }) => ({ expanded: new Set(expanded), selected }));
    this.overlay = kept.overlay;
    await this.draw(undefined);
    this.pane?.viewport.set({ ...kept.view });
    this.remember();
    this.refresh();
  }

  /** All children of a scope as a list in the panel. */
  async list(scope: Item, graph: number): Promise<void> {
    await this.select(scope === this.models[graph]!.root ? null : scope, graph);
    this.chrome.showOutline(true);
  }

  context(graph = this.active): Context {
    const painted = this.paintedOf(graph);
    return {
      model: this.models[graph]!,
      graph,
      painted,
      overlay: painted.find(({ overlay }) => overlay.id === this.overlay),
      twins: this.comparing(graph) ? this.twins : undefined,
      expanded: this.places[graph]!.expanded,
      jump: (item, other = graph) => void this.select(item, other),
      toggle: (scope) => void this.toggle(scope, graph),
      expandIn: (scope) => void this.expandIn(scope, graph),
      traced: this.tracing ? this.panes[graph]?.traced() : undefined,
      trace: () => this.toggleTrace(),
      difference: (step) => void this.nextDifference(step),
      showDifference: (difference) => void this.showDifference(difference),
    };
  }

  /** Overlays of all graphs that are seen, once each. */
  overlays(): Painted[] {
    return this.paintedOf(this.active);
  }

  private paintedOf(graph: number): Painted[] {
    const model = this.models[graph]!;
    return (this.painted[graph] ??= model.graph.overlays.map((overlay) => new Painted(model, overlay)));
  }

  /** Tells in the panel what a line carries. */
  private showLine(link: Link, graph: number): void {
    this.active = graph;
    this.pane?.choose(link);
    this.chrome.refresh(lineDetails(this.context(), link.tensors), () => outline(this.context(), this.pane!.visible, this.place.selected));
    this.chrome.showOutline(false);
  }

  private toggled(model: Model, place: Place, scope: Item, open: boolean): Set<Item> {
    const expanded = new Set(place.expanded);
    if (!open) {
      expanded.delete(scope);
      return expanded;
    }
    for (const around of model.around(scope)) expanded.add(around);
    for (const single of singles(model, scope)) expanded.add(single);
    return expanded;
  }

  /** Opens the scopes around an item; whether any was closed. */
  private openAround(graph: number, item: Item | null): boolean {
    if (item === null) return false;
    const model = this.models[graph]!;
    const place = this.places[graph]!;
    const pane = this.panes[graph];
    const around = model.around(item).slice(1);
    around.forEach((scope) => pane?.visible.reach(model.parent(scope), scope));
    const drawnBefore = pane?.scene?.byItem.has(item) ?? false;
    if (item !== model.root) pane?.visible.reach(model.parent(item), item);
    this.places[graph] = { ...place, expanded: new Set([...place.expanded, ...around]) };
    return !drawnBefore && item !== model.root;
  }

  private async selectTwin(graph: number, item: Item | null): Promise<void> {
    const other = 1 - graph;
    const twin = item === null ? null : this.twins!.twin(graph, item);
    const shown = twin ?? null;
    const changed = this.openAround(other, shown);
    this.places[other] = { ...this.places[other]!, selected: shown };
    await this.update(other, changed, shown === null ? undefined : { item: shown });
  }

  /** All panes on the screen; those of other tabs are hidden. */
  private async draw(aim: Aim): Promise<void> {
    const graphs = this.seen;
    for (const graph of graphs) if (this.panes[graph] === undefined) this.panes[graph] = this.makePane(graph);
    this.chrome.arrange(this.panes, graphs);
    for (const graph of graphs) await this.update(graph, true, aim);
  }

  private makePane(graph: number): Pane {
    const pane = new Pane(this.models[graph]!, this.switches, {
      select: (item) => void this.select(item, graph, { aim: undefined }),
      toggle: (scope) => void this.toggle(scope, graph),
      list: (scope) => void this.list(scope, graph),
      line: (link) => this.showLine(link, graph),
    });
    const colours = () => this.paintedOf(graph).find(({ overlay }) => overlay.id === this.overlay);
    pane.beforeDrawing = ({ places }) => colours()?.rescale(places.flatMap(({ item, expanded }) => (expanded ? [] : [item])));
    pane.isTracing = () => this.tracing;
    pane.look = (item) => {
      const painted = colours();
      const found = painted?.look(item) ?? {};
      if (this.comparing(graph) && painted === undefined) found.mark = this.twins!.mark(graph, item);
      if (this.tracing && pane.isAside(item)) found.mark = `${found.mark ?? ""} aside`;
      if (graph === this.active && this.hits.has(item)) found.mark = `${found.mark ?? ""} hit`;
      return found;
    };
    return pane;
  }

  private async update(graph: number, relaid: boolean, aim: Aim): Promise<void> {
    const pane = this.panes[graph];
    const place = this.places[graph]!;
    if (relaid) await pane?.show(place, aim);
    else pane?.select(place.selected, aim);
  }

  private shown(): Pane[] {
    return this.seen.flatMap((graph) => this.panes[graph] ?? []);
  }

  private refresh(): void {
    const context = this.context();
    const { selected } = this.place;
    this.chrome.refresh(details(context, selected), () => outline(context, this.pane!.visible, selected));
    const plain = context.overlay === undefined && !this.comparing();
    this.chrome.legend(legend(context.model, context.overlay, this.comparing()), plain);
  }

  private snapshot(): Snapshot {
    return { graph: this.active, places: this.places.map((place) => ({ ...place })), overlay: this.overlay };
  }

  private remember(): void {
    this.past.push(this.snapshot(), this.address());
  }

  private address(): string {
    const { selected } = this.place;
    const model = this.model!;
    const link: Parameters<typeof written>[0] = {};
    if (this.models.length > 1 && this.active > 0) link.graph = String(this.active);
    if (selected !== null && selected !== model.root) link.node = model.name(selected);
    if (this.overlay !== null) link.overlay = this.overlay;
    return written(link);
  }

  private restore(snapshot: Snapshot): void {
    this.active = snapshot.graph;
    this.places = snapshot.places.map((place) => ({ ...place }));
    this.overlay = snapshot.overlay;
    const { selected } = this.place;
    void this.draw(selected === null ? undefined : { item: selected }).then(() => this.refresh());
  }

  /** Goes where the fragment of the address says; what is not there is said. */
  private async follow(fragment: string): Promise<void> {
    const { graph, node, overlay } = parse(fragment);
    if (graph !== undefined) {
      const found = this.models.findIndex(({ graph: { label } }, i) => graph === String(i) || graph === label);
      if (found < 0) this.say(`The link names a graph that is not here: ${clean(graph)}`);
      else await this.openGraph(found);
    }
    if (overlay !== undefined) {
      if (this.overlays().some((painted) => painted.overlay.id === overlay)) this.setOverlay(overlay);
      else this.say(`The link names an overlay that is not here: ${clean(overlay)}`);
    }
    if (node === undefined) return;
    const item = itemOf(this.model!, node);
    if (item === undefined) this.say(`The link names a node that is not here: ${clean(node)}`);
    else await this.select(item);
  }
}

/** Notes for a benchmark when what was drawn is on the screen. */
function painted(name: string, start: number): void {
  requestAnimationFrame(() => setTimeout(() => performance.measure(name, { start })));
}

/** Scopes that are opened with one: those that are all it holds, down to where there is a choice. */
function singles(model: Model, scope: Item): Item[] {
  const found = [scope];
  for (;;) {
    const children = model.childrenOf(found[found.length - 1]!);
    if (children.length !== 1 || !model.isScope(children[0]!)) return found;
    found.push(children[0]!);
  }
}

/** Scopes open at the start, as the page says; else one that is alone, apart from inputs, outputs and constants. */
function firstLook(model: Model): Set<Item> {
  const { start } = model.graph;
  if (start !== undefined) return new Set(start.filter((scope) => scope < model.scopes).map((scope) => model.scopeItem(scope)));
  const expanded = new Set<Item>();
  if (model.scopes === 0) return expanded;
  for (let at = model.root; ; ) {
    const scopes = model.childrenOf(at).filter((item) => model.isScope(item) && !model.nodesOf(item).every((node) => model.stored[node] === 1));
    const nodes = model.childrenOf(at).filter((item) => !model.isScope(item) && model.stored[item] === 0);
    if (scopes.length !== 1 || nodes.some((node) => model.kind(node) !== 1 && model.kind(node) !== 2)) return expanded;
    expanded.add((at = scopes[0]!));
  }
}

export { levels };
export function levelButtons(app: App): HTMLElement[] {
  const deepest = app.model === undefined ? 0 : levels(app.model);
  const button = (level: number, said: string, title: string) =>
    h("button", { class: "level", title, "aria-label": title, onclick: () => void app.expandTo(level) }, said);
  const few = Array.from({ length: Math.min(4, deepest - 1) }, (_, i) => button(i + 1, String(i + 1), `Open scopes down to level ${i + 1}`));
  return deepest === 0 ? [] : [button(0, "0", "Close all scopes"), ...few, button(Infinity, "all", "Open all scopes")];
}
