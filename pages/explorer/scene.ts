/** Everything visible at its place on one plane: boxes and the lines between them. */

import { turns } from "./columns.ts";
import { type Box, boxOf, laidSize, SMALL } from "./boxes.ts";
import type { Laid } from "./layout.ts";
import type { Item, Model } from "./model.ts";
import { clean, count, shapeText, textWidth } from "./text.ts";
import { source, type Tensor, type Visible } from "./visible.ts";

export interface Placing {
  item: Item;
  x: number;
  y: number;
  width: number;
  height: number;
  depth: number;
  expanded: boolean;
  /** Children that are not drawn. */
  left: number;
  box: Box;
}

export interface Link {
  /** Ends: an item, or the scope whose border it crosses. */
  from: Item;
  to: Item;
  points: number[];
  tensors: Tensor[];
  control: boolean;
  /** It ends at a box, not at a border that it crosses. */
  arrow: boolean;
  label: string;
  /** Line of the label below its box: labels side by side would run into each other. */
  row: number;
}

export interface Scene {
  places: Placing[];
  byItem: Map<Item, Placing>;
  links: Link[];
  width: number;
  height: number;
  /** Values go from left to right. */
  across: boolean;
}

export function sceneOf(visible: Visible, root: Laid): Scene {
  return new Flat(visible).scene(root);
}

interface End {
  link: Link;
  item: Item;
  first: boolean;
}

class Flat {
  private readonly places: Placing[] = [];
  private readonly links: Link[] = [];
  /** Ends at boxes, to be spread over the box's side. */
  private readonly ends = new Map<string, End[]>();
  private readonly labelled = new Set<string>();
  private readonly model: Model;

  constructor(private readonly visible: Visible) {
    this.model = visible.model;
  }

  scene(root: Laid): Scene {
    this.scope(root, 0, 0, 0);
    this.spread();
    const byItem = new Map(this.places.map((place) => [place.item, place]));
    const { across } = this.visible;
    let { width, height } = root.placed;
    if (across) {
      [width, height] = [height, width];
      for (const place of this.places) Object.assign(place, onItsSide(place));
      for (const link of this.links) link.points = turned(link.points);
    }
    return { places: this.places, byItem, links: this.links, width, height, across };
  }

  private scope(laid: Laid, left: number, top: number, depth: number): void {
    const { graph, placed, inner } = laid;
    graph.items.forEach((item, i) => {
      const vertex = graph.ins.length + i;
      const child = inner.get(vertex);
      const { width, height } = child?.placed ?? laidSize(this.visible, item);
      const [x, y] = [left + placed.x[vertex]! - width / 2, top + placed.y[vertex]! - height / 2];
      const box = boxOf(this.visible, item);
      this.places.push({ item, x, y, width, height, depth, expanded: child !== undefined, left: child?.graph.left ?? 0, box });
      if (child !== undefined) this.scope(child, x, y, depth + 1);
    });
    graph.edges.forEach((_, edge) => this.edge(laid, edge, left, top));
  }

  private edge(laid: Laid, number: number, left: number, top: number): void {
    const { placed, graph } = laid;
    const { a, b, tensors, control } = graph.edges[number]!;
    const bends = placed.bends[number]!.map((value, i) => value + (i % 2 === 0 ? left : top));
    const [from, to] = [itemAt(laid, a), itemAt(laid, b)];
    const back = from !== laid.scope && to !== laid.scope && placed.y[b]! < placed.y[a]! && !turns(placed.bends[number]!);
    // Values enter an open scope at its top and leave it at its bottom, wherever they come from and go.
    const round = back && (laid.inner.has(a) || laid.inner.has(b));
    const up = back && !round;
    const [starts, ends] = [this.anchors(laid, a, tensors, left, top, !up), this.anchors(laid, b, tensors, left, top, up)];
    const seen = new Set<string>();
    for (const key of tensors) {
      const [start, end] = [starts(key), ends(key)];
      if (seen.has(`${start} ${end}`)) continue;
      seen.add(`${start} ${end}`);
      const carried = tensors.filter((other) => `${starts(other)} ${ends(other)}` === `${start} ${end}`);
      const arrow = to !== laid.scope && !laid.inner.has(b);
      const label = from === laid.scope || laid.inner.has(a) ? "" : this.label(from, carried, control);
      const link: Link = { from, to, points: [...start, ...(round ? this.around(laid, start, end, left, top) : bends), ...end], tensors: carried, control, arrow, label, row: 0 };
      this.links.push(link);
      if (from !== laid.scope && !laid.inner.has(a)) this.end(link, from, up, true);
      if (arrow) this.end(link, to, !up, false);
    }
  }

  /** The way of a line from below one vertex, right of all on its height, to above another. */
  private around(laid: Laid, start: [number, number], end: [number, number], left: number, top: number): number[] {
    const [low, high] = [start[1] + ROUND, end[1] - ROUND];
    let lane = Math.max(start[0], end[0]);
    laid.graph.items.forEach((_, i) => {
      const vertex = laid.graph.ins.length + i;
      const { width, height } = this.sizeOf(laid, vertex);
      const y = top + laid.placed.y[vertex]!;
      if (y - height / 2 < low && y + height / 2 > high) lane = Math.max(lane, left + laid.placed.x[vertex]! + width / 2);
    });
    return [start[0], low, lane + ROUND, low, lane + ROUND, high, end[0], high];
  }

  private sizeOf({ graph, inner }: Laid, vertex: number): { width: number; height: number } {
    return inner.get(vertex)?.placed ?? laidSize(this.visible, graph.items[vertex - graph.ins.length]!);
  }

  /** Where a tensor's line touches a vertex: at the crossing of an expanded scope, else in the middle of its side. */
  private anchors(laid: Laid, vertex: number, tensors: Tensor[], left: number, top: number, below: boolean): (key: Tensor) => [number, number] {
    const { graph, placed, inner } = laid;
    const x = left + placed.x[vertex]!;
    if (vertex < graph.ins.length) return () => [x, top];
    if (vertex >= graph.ins.length + graph.items.length) return () => [x, top + placed.height];
    const child = inner.get(vertex);
    const { height } = this.sizeOf(laid, vertex);
    const y = top + placed.y[vertex]! + (below ? height / 2 : -height / 2);
    if (child === undefined) return () => [x, y];
    const corner = x - child.placed.width / 2;
    const crossing = new Map<Tensor, number>();
    const sides = below ? child.graph.outs : child.graph.ins;
    const offset = below ? child.graph.ins.length + child.graph.items.length : 0;
    const wanted = new Set(tensors);
    sides.forEach((keys, port) => {
      for (const key of keys) if (wanted.has(key)) crossing.set(key, corner + child.placed.x[offset + port]!);
    });
    return (key) => [crossing.get(key) ?? x, y];
  }

  private end(link: Link, item: Item, atTop: boolean, first: boolean): void {
    const key = `${item} ${atTop}`;
    const found = this.ends.get(key);
    if (found === undefined) this.ends.set(key, [{ link, item, first }]);
    else found.push({ link, item, first });
  }

  /** Lines that meet at a side touch it next to each other, in the order of where they come from. */
  private spread(): void {
    const places = new Map(this.places.map((place) => [place.item, place]));
    for (const ends of this.ends.values()) {
      const place = places.get(ends[0]!.item)!;
      const step = Math.min(16, (place.width - 28) / Math.max(1, ends.length - 1));
      const next = ({ link, first }: End) => link.points[first ? 2 : link.points.length - 4]!;
      ends.sort((one, other) => next(one) - next(other));
      ends.forEach(({ link, first }, i) => {
        link.points[first ? 0 : link.points.length - 2]! += (i - (ends.length - 1) / 2) * step;
      });
      const labelled = ends.flatMap(({ link, first }) => (first && link.label !== "" ? [link] : []));
      if (this.visible.across) thin(labelled);
      else stagger(labelled);
    }
  }

  /** The shape once per output; how many, where a line stands for several. */
  private label(from: Item, tensors: Tensor[], control: boolean): string {
    if (control) return "";
    const key = `${from} ${tensors.join()}`;
    if (this.labelled.has(key)) return "";
    this.labelled.add(key);
    if (tensors.length > 1) return count(tensors.length, "tensor");
    const { node, port } = source(tensors[0]!);
    const output = this.model.outputs(node)[port];
    return output === undefined || output.shape === "*" ? "" : clean(shapeText(output.shape));
  }
}

const ROWS = 2;
/** Height of a label, and its distance from a box that it stands beside. */
const LINE = 12;
const BESIDE = 6;
const PAST_TURN = 96;
/** From a box to a line that goes around it. */
const ROUND = 12;

/** Labels one below another where they would overlap; what finds no line is left out. */
function stagger(links: Link[]): void {
  const taken: number[] = [];
  for (const link of links) {
    const left = link.points[0]!;
    let row = 0;
    while (row < ROWS && (taken[row] ?? -Infinity) > left) row++;
    if (row === ROWS) link.label = "";
    else [link.row, taken[row]] = [row, left + 12 + textWidth(link.label, SMALL)];
  }
}

/** Along lines that run side by side: what would lie on another, or has no room up to the next box, is left out. */
function thin(links: Link[]): void {
  let taken = -Infinity;
  for (const link of links) {
    const [at, begin, , end] = link.points as [number, number, number, number];
    // Where a line turns into the next row, nothing stands beyond the turn.
    const room = Math.max(Math.abs(end - begin), turns(link.points.slice(2, -2)) ? PAST_TURN : 0);
    if (at - taken < LINE || textWidth(link.label, SMALL) + BESIDE > room) link.label = "";
    else taken = at;
  }
}

/** Points with left and top for each other. */
export function turned(points: number[]): number[] {
  return points.map((_, i) => points[i ^ 1]!);
}

export function onItsSide<Area extends { x: number; y: number; width: number; height: number }>(area: Area): Area {
  return { ...area, x: area.y, y: area.x, width: area.height, height: area.width };
}

function itemAt(laid: Laid, vertex: number): Item {
  const { graph } = laid;
  return graph.items[vertex - graph.ins.length] ?? laid.scope;
}

/** The line nearest to a point, no farther from it than `reach`. */
export function linkAt(scene: Scene, x: number, y: number, reach: number): Link | undefined {
  let best: Link | undefined;
  let least = reach;
  const { across } = scene;
  if (across) [x, y] = [y, x];
  for (const link of scene.links) {
    const points = across ? turned(link.points) : link.points;
    for (let i = 2; i < points.length; i += 2) {
      const [x0, y0, x1, y1] = [points[i - 2]!, points[i - 1]!, points[i]!, points[i + 1]!];
      if (x < Math.min(x0, x1) - reach || x > Math.max(x0, x1) + reach || y < Math.min(y0, y1) - reach || y > Math.max(y0, y1) + reach) continue;
      const away = distance(x, y, x0, y0, x1, y1);
      if (away < least) [best, least] = [link, away];
    }
  }
  return best;
}

const STEPS = 12;

/** From a point to the curve that `pathOf` draws between two others: upright at both ends. */
function distance(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  let [least, fromX, fromY] = [Infinity, x0, y0];
  for (let i = 1; i <= STEPS; i++) {
    const part = i / STEPS;
    const toX = x0 + (x1 - x0) * part * part * (3 - 2 * part);
    // The control points lie halfway in height: the curve is slower at its ends.
    const toY = y0 + (y1 - y0) * (1.5 * part * (1 - part) * (1 - part) + 1.5 * part * part * (1 - part) + part ** 3);
    const [dx, dy] = [toX - fromX, toY - fromY];
    const along = Math.min(1, Math.max(0, ((x - fromX) * dx + (y - fromY) * dy) / (dx * dx + dy * dy || 1)));
    least = Math.min(least, Math.hypot(x - fromX - along * dx, y - fromY - along * dy));
    [fromX, fromY] = [toX, toY];
  }
  return least;
}

/** The innermost box at a point. */
export function boxAt(scene: Scene, x: number, y: number): Placing | undefined {
  let best: Placing | undefined;
  for (const place of scene.places) {
    const inside = x >= place.x && x <= place.x + place.width && y >= place.y && y <= place.y + place.height;
    if (inside && (best === undefined || place.depth > best.depth)) best = place;
  }
  return best;
}
