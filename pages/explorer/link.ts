/** The fragment of the address: which graph, node and overlay; so that one may send others to a place. */

import type { Item, Model } from "./model.ts";
import { wellFormed } from "./text.ts";

export interface Link {
  graph?: string;
  node?: string;
  overlay?: string;
}

export function parse(fragment: string): Link {
  const found: Link = {};
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const equals = part.indexOf("=");
    const [key, value] = [part.slice(0, equals), part.slice(equals + 1)];
    if (equals > 0 && (key === "graph" || key === "node" || key === "overlay")) found[key] = decoded(value);
  }
  return found;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that stands for itself
  }
}

export function written(link: Link): string {
  const parts = (["graph", "node", "overlay"] as const).flatMap((key) => {
    const value = link[key];
    return value === undefined ? [] : [`${key}=${encoded(value)}`];
  });
  return parts.length === 0 ? "#" : `#${parts.join("&")}`;
}

/** Slashes and colons stay, so that names can be read in the address. Half a surrogate pair cannot be sent. */
function encoded(text: string): string {
  return encodeURIComponent(wellFormed(text)).replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** The node or scope of a name; the name of a value (`conv:0`) is its node's, and one ending in / a scope's. */
export function itemOf(model: Model, name: string): Item | undefined {
  const plain = name.replace(/:\d+$/, "");
  let scope: Item | undefined;
  for (let item = 0; item < model.size + model.scopes; item++) {
    if (item === model.root) continue;
    const same = wellFormed(model.name(item));
    if (!model.isScope(item) && (same === name || same === plain)) return item;
    if (model.isScope(item) && same === name.replace(/\/$/, "")) scope ??= item;
  }
  return scope;
}
