/** Which part of the plane is seen: wheel, drag, pinch, and moves by command. */

export interface View {
  scale: number;
  /** Where the plane's origin lies, in pixels of the element. */
  x: number;
  y: number;
}

export interface Extent {
  width: number;
  height: number;
}

const LEAST = 0.01;
const MOST = 4;
const STEP = 1.25;
const CLICK = 4;
/** Height of the legend over the lower edge. */
const FOOT = 48;

export class Viewport {
  view: View = { scale: 1, x: 0, y: 0 };
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private moved = 0;
  private running = 0;
  private measured: Extent | undefined;

  constructor(
    readonly element: Element,
    private readonly changed: () => void,
  ) {
    element.addEventListener("wheel", (event) => this.wheel(event as WheelEvent), { passive: false });
    element.addEventListener("pointerdown", (event) => this.down(event as PointerEvent));
    element.addEventListener("pointermove", (event) => this.move(event as PointerEvent));
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, (event) => this.up(event as PointerEvent));
  }

  /** Whether the pointer went further since it was pressed than a click does. */
  get dragged(): boolean {
    return this.moved > CLICK;
  }

  /** Remembered: to ask the browser makes it lay out all that was changed since, several times for one picture. */
  size(): Extent {
    if (this.measured === undefined || this.measured.width === 0) {
      const { width, height } = this.element.getBoundingClientRect();
      this.measured = { width, height };
    }
    return this.measured;
  }

  /** The element may have another size now. */
  resized(): void {
    this.measured = undefined;
  }

  /** A point of the window on the plane. */
  toPlane(clientX: number, clientY: number): { x: number; y: number } {
    const box = this.element.getBoundingClientRect();
    const { scale, x, y } = this.view;
    return { x: (clientX - box.left - x) / scale, y: (clientY - box.top - y) / scale };
  }

  zoom(factor: number, at?: { x: number; y: number }): void {
    const { width, height } = this.size();
    const middle = at ?? { x: width / 2, y: height / 2 };
    const { scale, x, y } = this.view;
    const next = Math.min(MOST, Math.max(LEAST, scale * factor));
    this.set({ scale: next, x: middle.x - ((middle.x - x) * next) / scale, y: middle.y - ((middle.y - y) * next) / scale });
  }

  zoomIn(): void {
    this.zoom(STEP);
  }

  zoomOut(): void {
    this.zoom(1 / STEP);
  }

  pan(dx: number, dy: number): void {
    this.set({ ...this.view, x: this.view.x + dx, y: this.view.y + dy });
  }

  /** All of an area in the middle; never larger than its own size. */
  fit(area: Extent & { x?: number; y?: number }, smooth = false): void {
    const { width, height } = this.size();
    const margin = Math.min(24, width / 20);
    const room = height - FOOT;
    const scale = Math.max(LEAST, Math.min(1.15, (width - 2 * margin) / area.width, (room - 2 * margin) / area.height));
    this.to({
      scale,
      x: width / 2 - ((area.x ?? 0) + area.width / 2) * scale,
      y: room / 2 - ((area.y ?? 0) + area.height / 2) * scale,
    }, smooth);
  }

  /** The point in the middle. */
  center(x: number, y: number, scale: number, smooth = true): void {
    const { width, height } = this.size();
    this.to({ scale, x: width / 2 - x * scale, y: height / 2 - y * scale }, smooth);
  }

  set(view: View): void {
    cancelAnimationFrame(this.running);
    this.view = view;
    this.changed();
  }

  private to(goal: View, smooth: boolean): void {
    if (!smooth || matchMedia("(prefers-reduced-motion: reduce)").matches) return this.set(goal);
    const start = this.view;
    const begun = performance.now();
    const step = (now: number): void => {
      const part = Math.min(1, Math.max(0, (now - begun) / 220));
      const eased = 1 - (1 - part) ** 3;
      const between = (a: number, b: number) => a + (b - a) * eased;
      this.view = { scale: between(start.scale, goal.scale), x: between(start.x, goal.x), y: between(start.y, goal.y) };
      this.changed();
      if (part < 1) this.running = requestAnimationFrame(step);
    };
    cancelAnimationFrame(this.running);
    this.running = requestAnimationFrame(step);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 18 : 1;
    if (event.shiftKey) return this.pan(-(event.deltaX || event.deltaY) * unit, 0);
    const box = this.element.getBoundingClientRect();
    // A pinch on a touchpad arrives as a wheel with ctrl, in small steps.
    const speed = event.ctrlKey ? 0.01 : 0.0018;
    this.zoom(Math.exp(-event.deltaY * unit * speed), { x: event.clientX - box.left, y: event.clientY - box.top });
  }

  private down(event: PointerEvent): void {
    if (event.button > 1) return;
    if (this.pointers.size === 0) this.moved = 0;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  private move(event: PointerEvent): void {
    const last = this.pointers.get(event.pointerId);
    if (last === undefined) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (!this.dragged) return; // a click with a shaking hand
    if (!this.element.hasPointerCapture(event.pointerId)) this.element.setPointerCapture(event.pointerId);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (other === undefined) return this.pan(dx, dy);
    const before = Math.hypot(last.x - other.x, last.y - other.y);
    const after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    const box = this.element.getBoundingClientRect();
    this.zoom(after / Math.max(1, before), { x: other.x - box.left, y: other.y - box.top });
    this.pan(dx / 2, dy / 2);
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
  }
}
