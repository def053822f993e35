/** Everything around the graph: toolbar, tabs, search, panel, legend, messages. */

import { h } from "../common/dom.ts";
import { fileName } from "../common/files.ts";
import { type App, levelButtons } from "./app.ts";
import { Bookmarks } from "./bookmarks.ts";
import { help } from "./help.ts";
import { listenToKeys } from "./keyboard.ts";
import { isDark } from "./overlays.ts";
import type { Pane } from "./pane.ts";
import { problemOf } from "./query.ts";
import { SearchBar } from "./searchbar.ts";
import { clean } from "./text.ts";

const NARROW = "(max-width: 760px)";

export class Chrome {
  readonly search: SearchBar;
  private readonly bookmarks: Bookmarks;
  private readonly stage = h("div", { class: "stage" });
  private readonly panel = h("aside", { class: "panel", "aria-label": "Details" });
  private readonly body = h("div", { class: "panel-body", tabindex: -1 });
  private readonly title = h("h1");
  private readonly tabs = h("nav", { class: "tabs", role: "tablist", "aria-label": "Graphs" });
  private readonly overlays = h("select", { class: "overlays", "aria-label": "Colours" });
  private readonly levels = h("span", { class: "group levels", role: "group", "aria-label": "Open scopes to a level" });
  private readonly corner = h("div", { class: "legend", "aria-label": "Legend" });
  private readonly message = h("div", { class: "message", role: "status", "aria-live": "polite" });
  private readonly back = this.button("\u2190", "Back (Alt+Left)", () => this.app.past.back());
  private readonly forward = this.button("\u2192", "Forward (Alt+Right)", () => this.app.past.forward());
  private readonly boxes = new Map<"control" | "constants" | "across", HTMLInputElement>();
  private readonly drawer = this.button("\u2630", "Panel", () => this.toggleDrawer());
  private readonly help = help();
  /** For screen readers: what is selected now. */
  private readonly announced = h("p", { class: "unseen", "aria-live": "polite" });
  private readonly views: HTMLElement[];
  private outlined = false;
  private fading = 0;
  private rising = 0;
  private scrolled = false;
  private lastSelected: number | null = null;
  private lastDetails: HTMLElement[] = [];
  private lastOutline: () => HTMLElement = () => h("div");

  constructor(private readonly app: App) {
    this.search = new SearchBar(app);
    this.bookmarks = new Bookmarks(app);
    this.overlays.addEventListener("change", () => app.setOverlay(this.overlays.value || null));
    this.views = (["Details", "Outline"] as const).map((name, i) =>
      h("button", { role: "tab", class: "view-tab", onclick: () => this.showOutline(i === 1) }, name),
    );
    const close = h("button", { class: "quiet close", "aria-label": "Close the panel", onclick: () => this.toggleDrawer(false) }, "\u00d7");
    this.panel.append(h("div", { class: "view-tabs", role: "tablist", "aria-label": "Panel" }, ...this.views, close), this.body);
    document.body.append(this.toolbar(), h("main", {}, this.stage, this.panel), this.message, this.announced, this.help);
    this.stage.append(this.corner);
    this.body.addEventListener("scroll", () => (this.scrolled = true), { passive: true });
    listenToKeys(app, this);
  }

  /** Only the title, where there is no graph. */
  empty(): void {
    this.stage.append(h("p", { class: "notice" }, "This page holds no graph."));
    this.panel.hidden = true;
    document.documentElement.dataset["ready"] = "true";
  }

  /** Shows the panes of some graphs, side by side. */
  arrange(panes: (Pane | undefined)[], shown: number[]): void {
    panes.forEach((pane, graph) => {
      if (pane === undefined) return;
      const title = h("div", { class: "pane-title" }, clean(this.app.models[graph]!.graph.label));
      if (!pane.element.isConnected) this.stage.insertBefore(pane.element, this.corner);
      pane.element.querySelector(".pane-title")?.remove();
      if (shown.length > 1) pane.element.append(title);
      pane.element.hidden = !shown.includes(graph);
    });
    this.stage.classList.toggle("two", shown.length > 1);
  }

  refresh(details: HTMLElement[], outline: () => HTMLElement): void {
    const { app } = this;
    this.lastDetails = details;
    this.lastOutline = outline;
    const { selected } = app.place;
    this.announced.textContent = selected === null ? "" : `${clean(app.model!.name(selected))}, ${app.model!.isScope(selected) ? "scope" : clean(app.model!.op(selected))}`;
    this.fillPanel();
    clearTimeout(this.rising);
    // The drawer waits for the second press of a double click, which it would catch.
    if (app.place.selected !== null && app.place.selected !== this.lastSelected && matchMedia(NARROW).matches) {
      this.rising = window.setTimeout(() => {
        this.toggleDrawer(true);
        app.pane?.avoid(this.panel.offsetHeight);
      }, 420);
    }
    this.lastSelected = app.place.selected;
    this.back.disabled = !app.past.canBack;
    this.forward.disabled = !app.past.canForward;
    this.levels.replaceChildren(...levelButtons(app));
    this.boxes.forEach((input, name) => (input.checked = app.switches[name]));
    this.fillOverlays();
    this.fillTabs();
  }

  legend(content: HTMLElement[], plain: boolean): void {
    this.corner.classList.toggle("plain", plain);
    this.corner.replaceChildren(...content);
    this.corner.hidden = content.length === 0;
  }

  say(text: string): void {
    this.message.textContent = text;
    this.message.classList.add("seen");
    clearTimeout(this.fading);
    this.fading = window.setTimeout(() => this.message.classList.remove("seen"), 6000);
  }

  showOutline(on: boolean): void {
    this.outlined = on;
    this.fillPanel();
    if (matchMedia(NARROW).matches) this.toggleDrawer(true);
  }

  toggleHelp(): void {
    if (this.help.open) this.help.close();
    else this.help.showModal();
  }

  toggleDrawer(open = !document.body.classList.contains("drawer-open")): void {
    document.body.classList.toggle("drawer-open", open);
    this.drawer.setAttribute("aria-expanded", String(open));
  }

  private fillPanel(): void {
    this.views.forEach((view, i) => view.setAttribute("aria-selected", String((i === 1) === this.outlined)));
    // Who is inside the list with the keyboard stays there.
    const inside = this.outlined && this.body.contains(document.activeElement);
    const top = this.outlined ? this.body.scrollTop : 0;
    this.body.replaceChildren(...(this.outlined ? [this.lastOutline()] : this.lastDetails));
    // Not where nobody scrolled: to set it lays out the whole page.
    if (this.scrolled) this.body.scrollTop = top;
    this.scrolled = top > 0;
    if (!this.outlined) return;
    const row = this.body.querySelector<HTMLElement>("[aria-selected=true]");
    row?.scrollIntoView({ block: "nearest" });
    if (inside) (row ?? this.body.querySelector<HTMLElement>("[tabindex='0']"))?.focus({ preventScroll: true });
  }

  private fillOverlays(): void {
    const { app } = this;
    const overlays = app.overlays();
    const plain = app.comparing() ? "Colours: differences" : "Colours: kind of op";
    this.overlays.replaceChildren(
      h("option", { value: "" }, plain),
      ...overlays.map(({ overlay }) => h("option", { value: overlay.id }, `Colours: ${clean(overlay.label)}`)),
    );
    this.overlays.value = overlays.some(({ overlay }) => overlay.id === app.overlay) ? app.overlay! : "";
    this.overlays.hidden = overlays.length === 0;
  }

  private fillTabs(): void {
    const { app } = this;
    // Two that stand side by side have their names above them.
    this.tabs.hidden = app.models.length < (app.twins === undefined ? 2 : 3);
    // The tabs say the same names.
    this.title.hidden = !this.tabs.hidden;
    this.tabs.replaceChildren(
      ...app.models.map(({ graph }, i) =>
        h("button", { role: "tab", "aria-selected": String(i === app.active), onclick: () => void app.openGraph(i) }, clean(graph.label)),
      ),
    );
  }

  private toolbar(): HTMLElement {
    const { app } = this;
    this.title.title = clean(app.data.title);
    this.title.append(h("bdi", {}, clean(app.data.title)));
    const zoom = h(
      "span",
      { class: "group" },
      this.button("\u2212", "Smaller (-)", () => app.pane?.viewport.zoomOut()),
      this.button("+", "Larger (+)", () => app.pane?.viewport.zoomIn()),
      this.button("Fit", "Fit the whole graph (f)", () => app.pane?.fit()),
    );
    return h(
      "header",
      { class: "toolbar" },
      this.title,
      this.tabs,
      this.search.element,
      h("span", { class: "group" }, this.back, this.forward),
      zoom,
      this.levels,
      this.overlays,
      this.options(),
      this.button("\u25d0", "Light or dark", () => this.toggleTheme()),
      this.button("?", "Keys and help (?)", () => this.toggleHelp()),
      this.drawer,
    );
  }

  private options(): HTMLElement {
    const box = (name: "control" | "constants" | "across", said: string) => {
      const input = h("input", { type: "checkbox" });
      input.addEventListener("change", () => void this.app.setSwitch(name, input.checked));
      this.boxes.set(name, input);
      return h("label", {}, input, said);
    };
    const picture = (kind: "svg" | "png") =>
      h("button", { class: "quiet", onclick: () => void this.savePicture(kind).then(() => (found.open = false)) }, `Save as ${kind.toUpperCase()}`);
    const menu = h("div", { class: "menu" }, box("control", "Control edges"), box("constants", "Constants as boxes"), box("across", "From left to right (d)"), this.attributeField(), this.dataButton(), this.bookmarks.element, picture("svg"), picture("png"));
    const found = h("details", { class: "options" }, h("summary", { title: "What is drawn, and the drawing as a file" }, "Show"), menu);
    document.addEventListener("pointerdown", (event) => {
      if (!found.contains(event.target as Node)) found.open = false;
    });
    return found;
  }

  /** Reads a file with numbers of nodes; one may be dropped onto the page, too. */
  private dataButton(): HTMLElement {
    const input = h("input", { type: "file", accept: ".json,application/json", hidden: true, "aria-label": "A file with data of nodes" });
    const read = (file: File | undefined): void => void file?.text().then((text) => this.app.addData(text, file.name));
    input.addEventListener("change", () => {
      read(input.files?.[0]);
      input.value = "";
    });
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      read(event.dataTransfer?.files[0]);
    });
    return h("span", {}, h("button", { class: "quiet", title: "Colour nodes by numbers from a JSON file", onclick: () => input.click() }, "Open data of nodes"), input);
  }

  /** Which attributes stand on the boxes, as a pattern of their names. */
  private attributeField(): HTMLElement {
    const input = h("input", { type: "text", placeholder: "strides|padding", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("change", () => {
      const problem = problemOf(input.value);
      input.setCustomValidity(problem);
      if (problem === "") void this.app.setSwitch("attributes", input.value);
      else input.reportValidity();
    });
    return h("label", { title: "Attributes whose names match, as a regular expression" }, "Attributes on boxes", input);
  }

  private async savePicture(kind: "svg" | "png"): Promise<void> {
    const { model, pane } = this.app;
    const label = fileName(model?.graph.label || this.app.data.title, "model");
    const problem = await pane?.savePicture(label, kind);
    if (problem) this.say(problem);
  }

  private toggleTheme(): void {
    document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
    this.app.recolour();
  }

  private button(text: string, title: string, onclick: () => void): HTMLButtonElement {
    return h("button", { title, "aria-label": title, onclick }, text);
  }
}
