/** Overlays: a value for each item, and the colour that stands for it. */

import type { Item, Model } from "./model.ts";
import type { Overlay } from "./schema.ts";
import { amount, clean } from "./text.ts";
import type { Look } from "./draw.ts";

/** From little to much: lightness falls on paper and rises on a dark screen, so it reads in gray and for the colour-blind. */
const LIGHT = ["#f6f1e3", "#fbd98f", "#f6a04d", "#dd5f3a", "#a52a4a", "#5d1154"];
const DARK = ["#2a2440", "#5d2766", "#a2345f", "#dd5f3a", "#f6a04d", "#fde9a9"];
/** By tone, for the first, second, ... category that has it; told apart by lightness, too. */
const TONES: Record<string, string[]> = {
  good: ["#2f8fca", "#7fc8e8", "#1d5c8f"],
  neutral: ["#a9b0b7", "#d3d7db", "#7b848d"],
  warn: ["#f2b134", "#d98e04", "#f7d488"],
  bad: ["#cf4a1f", "#8f2c14", "#e98a66"],
};

export function isDark(): boolean {
  const { theme, printing } = document.documentElement.dataset;
  if (printing !== undefined) return false;
  return theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

export class Painted {
  /** By item; NaN where nothing is known. */
  private readonly values: Float64Array;
  private readonly low: number;
  private high: number;

  constructor(
    readonly model: Model,
    readonly overlay: Overlay,
  ) {
    this.values = gathered(model, overlay);
    const known = this.values.subarray(0, model.size).filter((value) => !Number.isNaN(value));
    this.high = known.reduce((most, value) => Math.max(most, value), overlay.adds ? 0 : -Infinity);
    this.low = overlay.adds ? 0 : known.reduce((least, value) => Math.min(least, value), Infinity);
  }

  /** Sums are shown beside what is drawn with them: closed scopes would all be darker than any node. */
  rescale(drawn: Iterable<Item>): void {
    if (!this.overlay.adds) return;
    this.high = 0;
    for (const item of drawn) this.high = Math.max(this.high, this.value(item) ?? 0);
  }

  value(item: Item): number | undefined {
    const value = this.values[item]!;
    return Number.isNaN(value) ? undefined : value;
  }

  /** The value in words. */
  text(item: Item): string {
    const value = this.value(item);
    return value === undefined ? "" : this.textOf(value);
  }

  textOf(value: number): string {
    if (this.overlay.kind === "amount") return amount(value, this.overlay.unit);
    return clean(this.overlay.categories?.[value]?.label ?? "");
  }

  look(item: Item): Look {
    const value = this.value(item);
    if (value === undefined) return { fill: isDark() ? "#24272c" : "#f1f2f3", ink: isDark() ? "#8a929b" : "#6a727b" };
    const fill = this.colour(value);
    return { fill, ink: luminance(fill) > 0.19 ? "#16191d" : "#ffffff", value: this.text(item) };
  }

  colour(value: number): string {
    if (this.overlay.kind === "category") return this.tone(value);
    return ramp(this.part(value));
  }

  /** 0 for harmless, 1 for the worst. Amounts that add spread over powers of ten: their root does, too. */
  part(value: number): number {
    const span = this.high - this.low;
    if (!(span > 0)) return this.high > 0 && this.overlay.adds ? 1 : 0.5;
    const part = Math.min(1, Math.max(0, (value - this.low) / span));
    if (this.overlay.worse === "low") return 1 - part;
    return this.overlay.adds ? Math.sqrt(part) : part;
  }

  /** Ends of the scale, from harmless to worst. */
  ends(): [number, number] | undefined {
    if (!Number.isFinite(this.low) || !Number.isFinite(this.high)) return undefined;
    return this.overlay.worse === "low" ? [this.high, this.low] : [this.low, this.high];
  }

  /** Nodes with the worst or largest values. */
  top(number: number): Item[] {
    const sign = this.overlay.worse === "low" ? 1 : -1;
    const nodes = Array.from({ length: this.model.size }, (_, i) => i).filter((node) => {
      const value = this.value(node);
      return value !== undefined && !(this.overlay.adds && value === 0);
    });
    return nodes.sort((a, b) => sign * (this.value(a)! - this.value(b)!)).slice(0, number);
  }

  /** The sum over all nodes. */
  total(): number {
    return this.values[this.model.root] || 0;
  }

  /** How many nodes below an item are in each category. */
  counts(item: Item): Map<number, number> {
    const found = new Map<number, number>();
    for (const node of this.model.nodesOf(item)) {
      const value = this.value(node);
      if (value !== undefined) found.set(value, (found.get(value) ?? 0) + 1);
    }
    return found;
  }

  reason(node: number): string {
    const text = this.overlay.reasons?.[node];
    return text === undefined ? "" : this.model.text(text);
  }

  private tone(category: number): string {
    const categories = this.overlay.categories ?? [];
    const tone = categories[category]?.tone ?? "neutral";
    const before = categories.slice(0, category).filter((other) => other.tone === tone).length;
    const colours = TONES[tone]!;
    return colours[before % colours.length]!;
  }
}

const SEVERITY = { good: 0, neutral: 1, warn: 2, bad: 3 };

/** Values of nodes, and of scopes: the sum where values add, else the worst. */
function gathered(model: Model, overlay: Overlay): Float64Array {
  const values = new Float64Array(model.size + model.scopes).fill(NaN);
  const worse = (a: number, b: number): number => {
    if (Number.isNaN(a)) return b;
    if (overlay.adds) return a + b;
    if (overlay.kind === "amount") return overlay.worse === "low" ? Math.min(a, b) : Math.max(a, b);
    const severity = (value: number) => SEVERITY[overlay.categories?.[value]?.tone ?? "neutral"];
    return severity(b) > severity(a) ? b : a;
  };
  overlay.values.forEach((value, node) => {
    if (value === null || value === undefined) return;
    for (let item = node; item >= 0; item = model.parent(item)) values[item] = worse(values[item]!, value);
  });
  return values;
}

/** Colours of the scale at even steps, for a legend. */
export function ramp(part: number): string {
  const colours = isDark() ? DARK : LIGHT;
  const place = part * (colours.length - 1);
  const low = Math.min(colours.length - 2, Math.floor(place));
  const share = place - low;
  const [a, b] = [channels(colours[low]!), channels(colours[low + 1]!)];
  const mixed = a.map((value, i) => Math.round(value + (b[i]! - value) * share));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** Relative luminance, by which contrast is judged. */
export function luminance(colour: string): number {
  const [red, green, blue] = channels(colour).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}
