/** Numbers or words for nodes from a file, in the form that Google's Model Explorer reads, as an overlay.
 *
 *     {"results": {NODE: {"value": 1.5}, ...}, "name": ...}            for any graph that has these nodes
 *     {GRAPH: {"results": ...}, ...}                                   by graphs
 *     {NODE: 1.5, ...}                                                 by hand
 *
 * A node is told by its name or by that of one of its outputs (`conv:0`).
 */

import type { Model } from "./model.ts";
import type { Overlay } from "./schema.ts";
import { clean, count } from "./text.ts";

export interface Read {
  overlays: { graph: number; overlay: Overlay; said: string }[];
  /** Why there is none; else "". */
  problem: string;
}

type Value = number | string;

interface Data {
  name: string;
  values: Map<string, Value>;
}

let made = 0;

export function nodeData(text: string, file: string, models: readonly Model[]): Read {
  const fail = (why: string): Read => ({ overlays: [], problem: `${clean(file)}: ${why}` });
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return fail("this is no JSON; open a file such as --model-explorer writes, or {\"NODE\": 1.5}");
  }
  const sets = setsOf(read, file);
  if (sets.length === 0) return fail("there is no value of any node in it; it should hold {\"NODE\": 1.5}, or \"results\" as Model Explorer has them");
  const overlays = models.flatMap((model, graph) => {
    // Of several graphs in a file, the one whose nodes these are.
    const found = sets.map((one) => ({ one, at: placesOf(model, one) })).sort((a, b) => b.at.size - a.at.size)[0]!;
    if (found.at.size === 0) return [];
    const lost = found.one.values.size - found.at.size;
    const rest = lost > 0 ? `; ${count(lost, "name")} ${lost === 1 ? "is" : "are"} not in this graph` : "";
    return [{ graph, overlay: overlayOf(model, found.one, found.at, file), said: `${count(found.at.size, "node")} coloured by ${clean(found.one.name)}${rest}` }];
  });
  if (overlays.length > 0) return { overlays, problem: "" };
  const [first] = sets[0]!.values.keys();
  return fail(`none of its names is in this graph, as ${clean(first ?? "").slice(0, 60)}; "copy" in the panel gives one that is`);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function setsOf(read: unknown, file: string): Data[] {
  if (!isRecord(read)) return [];
  const plain = file.replace(/\.json$/i, "");
  const isByGraph = !("results" in read) && Object.values(read).some((part) => isRecord(part) && isRecord(part["results"]));
  const parts = isByGraph ? Object.values(read).filter(isRecord) : [read];
  const sets = parts.map((part) => {
    const results = isRecord(part["results"]) ? part["results"] : isByGraph ? {} : part;
    const name = typeof part["name"] === "string" && isRecord(part["results"]) ? part["name"] : plain;
    return { name, values: valuesOf(results) };
  });
  return sets.filter(({ values }) => values.size > 0);
}

function valuesOf(results: Record<string, unknown>): Map<string, Value> {
  const found = new Map<string, Value>();
  for (const [name, result] of Object.entries(results)) {
    const value = isRecord(result) ? result["value"] : result;
    if (typeof value === "string" || (typeof value === "number" && Number.isFinite(value))) found.set(name, value);
  }
  return found;
}

/** By node of the graph, the name by which the set has it. */
function placesOf(model: Model, { values }: Data): Map<number, string> {
  const found = new Map<number, string>();
  for (let node = 0; node < model.size; node++) {
    const name = model.name(node);
    const known = values.has(name) ? name : `${name}:0`;
    if (values.has(known)) found.set(node, known);
  }
  return found;
}

const TONES = ["good", "warn", "neutral", "bad"] as const;
/** Words of which each may have a colour. */
const MOST_WORDS = 12;

function overlayOf(model: Model, { name, values }: Data, places: Map<number, string>, file: string): Overlay {
  const column = Array.from({ length: model.size }, (_, node) => (places.has(node) ? values.get(places.get(node)!)! : null));
  const overlay = { id: `data-${++made}`, label: name, about: `From ${file}.` };
  const words = [...new Set(column.filter((value) => typeof value === "string"))];
  if (words.length === 0) return { ...overlay, kind: "amount", worse: "high", values: column as (number | null)[] };
  const shown = words.slice(0, MOST_WORDS);
  const categories = shown.map((label, i) => ({ label, tone: TONES[i % TONES.length]! }));
  if (words.length > shown.length || column.some((value) => typeof value === "number")) categories.push({ label: "others", tone: "neutral" });
  const numberOf = new Map(shown.map((word, i) => [word, i]));
  const numbers = column.map((value) => (value === null ? null : (numberOf.get(String(value)) ?? categories.length - 1)));
  return { ...overlay, kind: "category", categories, values: numbers };
}
