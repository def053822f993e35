/** The whole graph in a corner, with a frame around what is seen; a press moves there. */

import { h, s } from "../common/dom.ts";
import type { Window } from "./draw.ts";
import type { Scene } from "./scene.ts";
import type { Viewport } from "./viewport.ts";

const WIDTH = 150;
const HEIGHT = 190;

export class Minimap {
  readonly element: HTMLElement;
  private readonly svg = s("svg", { "aria-hidden": true });
  private readonly frame = s("rect", { class: "seen" });
  private scale = 1;
  private extent = { width: 1, height: 1 };

  constructor(private readonly viewport: Viewport) {
    this.element = h("div", { class: "minimap", hidden: true, title: "Overview: press to move there" }, this.svg);
    const move = (event: Event): void => {
      const { clientX, clientY, buttons } = event as PointerEvent;
      if (buttons === 0) return;
      const box = this.svg.getBoundingClientRect();
      const { scale } = this.viewport.view;
      this.viewport.center((clientX - box.left) / this.scale, (clientY - box.top) / this.scale, scale, false);
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      move(event);
    });
    this.element.addEventListener("pointermove", move);
  }

  show(scene: Scene): void {
    this.extent = scene;
    this.scale = Math.min(WIDTH / scene.width, HEIGHT / scene.height);
    const [width, height] = [scene.width * this.scale, scene.height * this.scale];
    this.svg.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
    this.svg.setAttribute("width", String(Math.max(1, width)));
    this.svg.setAttribute("height", String(Math.max(1, height)));
    const least = 1.5 / this.scale;
    const path = (expanded: boolean): string =>
      scene.places
        .filter((place) => place.expanded === expanded)
        .map((p) => `M${p.x | 0} ${p.y | 0}h${Math.max(least, p.width) | 0}v${Math.max(least, p.height) | 0}H${p.x | 0}z`)
        .join("");
    this.svg.replaceChildren(s("path", { class: "frames", d: path(true) }), s("path", { class: "boxes", d: path(false) }), this.frame);
  }

  /** Shown only where something lies outside of what is seen. */
  move(seen: Window): void {
    const { width, height } = this.extent;
    this.element.hidden = seen.left <= 0 && seen.top <= 0 && seen.right >= width && seen.bottom >= height;
    const [left, top] = [Math.max(0, seen.left), Math.max(0, seen.top)];
    this.frame.setAttribute("x", String(left));
    this.frame.setAttribute("y", String(top));
    this.frame.setAttribute("width", String(Math.max(0, Math.min(width, seen.right) - left)));
    this.frame.setAttribute("height", String(Math.max(0, Math.min(height, seen.bottom) - top)));
    this.frame.setAttribute("stroke-width", String(1.5 / this.scale));
  }
}
