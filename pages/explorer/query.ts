/** Searching nodes and scopes: words, /patterns/, and prefixes that say where to look. */

import type { Item, Model } from "./model.ts";
import { shapeText } from "./text.ts";

export interface Query {
  matches(model: Model, item: Item): boolean;
  /** What else than its name and its op matched: a shape, a dtype, an attribute. */
  reasons(model: Model, item: Item): string[];
}

const FIELDS = ["op", "name", "shape", "dtype", "attr"] as const;
type Field = (typeof FIELDS)[number];

/** Every word must match: `conv op:Relu dtype:int8 attr:padding=SAME /block_\d+/`.
 *
 * @throws SyntaxError where a pattern between slashes is none.
 */
export function parsed(text: string): Query | undefined {
  const terms = words(text).map(term);
  if (terms.length === 0) return undefined;
  return {
    matches: (model, item) => terms.every((term) => term(model, item) !== undefined),
    reasons: (model, item) => {
      const plain = model.isScope(item) ? [model.name(item)] : [model.name(item), model.op(item)];
      return [...new Set(terms.flatMap((term) => term(model, item) ?? []))].filter((text) => !plain.includes(text));
    },
  };
}

/** Why a pattern is none; "" if it is one. */
export function problemOf(pattern: string): string {
  try {
    new RegExp(pattern, "iu");
    return "";
  } catch (problem) {
    return (problem as Error).message;
  }
}

/** The text of an item that matches. */
type Term = (model: Model, item: Item) => string | undefined;

/** Words between spaces, where /a pattern/ and "quoted text" hold spaces, after a prefix too. */
function words(text: string): string[] {
  return text.match(/(?:\w+:)?\/(?:\\.|[^\\/])+\/i?(?=\s|$)|(?:\w+:)?"[^"]*"|\S+/g) ?? [];
}

function term(word: string): Term {
  const colon = word.indexOf(":");
  const prefix = colon < 0 ? "" : word.slice(0, colon).toLowerCase();
  const field = FIELDS.find((name) => name === prefix);
  const test = tester(field === undefined ? word : word.slice(colon + 1), field);
  if (field === "attr") return attributes(word.slice(colon + 1));
  return (model, item) => texts(model, item, field).find(test);
}

function tester(text: string, field?: Field): (text: string) => boolean {
  const pattern = /^\/(.+)\/i?$/s.exec(text)?.[1];
  if (pattern !== undefined) {
    const found = new RegExp(pattern, "iu");
    return (value) => found.test(value);
  }
  const plain = text.replace(/^"(.*)"$/s, "$1").toLowerCase();
  if (field === "shape") {
    // 1x224, 1,224 and 1×224 are one shape; its beginning and any run of whole sizes in it match.
    const sizes = plain.replaceAll(/[x\u00d7]/g, ",").replace(/^[[(]|[\])]$/g, "");
    return (value) => `,${value},`.includes(`,${sizes},`) || value.startsWith(sizes);
  }
  return (value) => value.toLowerCase().includes(plain);
}

function attributes(text: string): Term {
  const equals = text.startsWith("/") ? -1 : text.indexOf("=");
  const name = tester(equals < 0 ? text : text.slice(0, equals));
  const value = equals < 0 ? undefined : tester(text.slice(equals + 1));
  return (model, item) => {
    if (model.isScope(item)) return undefined;
    const is = (key: string, said: string) => (value === undefined ? name(key) || name(`${key}=${said}`) : name(key) && value(said));
    const found = model.attributes(item).find(([key, said]) => is(key, said));
    return found === undefined ? undefined : `${found[0]}=${found[1]}`;
  };
}

/** Where a word is looked for; shapes and attributes only if asked: numbers are in all of them. */
function texts(model: Model, item: Item, field: Field | undefined): string[] {
  if (model.isScope(item)) return field === undefined || field === "name" ? [model.name(item)] : [];
  const outputs = () => model.outputs(item);
  switch (field) {
    case "op":
      return [model.op(item)];
    case "shape":
      return outputs().map(({ shape }) => shape);
    case "dtype":
      return outputs().map(({ dtype }) => dtype);
    case "name":
      return [model.name(item)];
    default:
      return [model.name(item), model.op(item), ...outputs().flatMap(({ dtype, shape }) => [dtype, shape, shapeText(shape)])];
  }
}

/** All nodes and scopes that match, in running order, a scope before what is in it. */
export function search(model: Model, query: Query): Item[] {
  const found: Item[] = [];
  const visit = [model.root];
  while (visit.length > 0) {
    const item = visit.pop()!;
    if (item !== model.root && query.matches(model, item)) found.push(item);
    if (model.isScope(item)) visit.push(...[...model.childrenOf(item)].reverse());
  }
  return found;
}
