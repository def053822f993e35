/** Parts of the explorer that need no browser; tests/pages/test_explorer_units.py bundles and runs this. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isFlat, turns } from "../explorer/columns.ts";
import { parse, written } from "../explorer/link.ts";
import { type Boxes, type Placed, type Problem, solve } from "../explorer/layers.ts";
import { Model } from "../explorer/model.ts";
import { luminance, Painted, ramp } from "../explorer/overlays.ts";
import { components, pieces } from "../explorer/pieces.ts";
import { parsed, search } from "../explorer/query.ts";
import type { Document, Graph, Overlay } from "../explorer/schema.ts";
import { amount, byteText, clean, distinctEnds, lastPart, shapeText, short } from "../explorer/text.ts";
import { Twins } from "../explorer/twins.ts";

/** The same numbers each time. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function problem(total: number, edges: [number, number][], seed: number, more: Partial<Problem> = {}): Problem {
  const next = numbers(seed);
  const sizes = (least: number, span: number) => Array.from({ length: total }, () => least + next(span));
  return { id: seed, widths: sizes(60, 160), heights: sizes(30, 60), inner: Array(total).fill(-1), ins: 0, outs: 0, edges: edges.flat(), header: 46, padding: 20, least: 0, across: false, gap: 46, shape: 0, ...more };
}

function randomEdges(total: number, next: (below: number) => number): [number, number][] {
  const seen = new Set<string>();
  const edges: [number, number][] = [];
  for (let b = 1; b < total; b++) {
    for (let k = 0; k <= next(3); k++) {
      const a = Math.max(0, b - 1 - next(6));
      if (!seen.has(`${a} ${b}`)) edges.push([a, b]);
      seen.add(`${a} ${b}`);
    }
  }
  return edges;
}

function noOverlap(made: Problem, placed: Placed): void {
  const { widths, heights } = made;
  for (let i = 0; i < widths.length; i++) {
    assert.ok(placed.x[i]! - widths[i]! / 2 >= -0.01 && placed.x[i]! + widths[i]! / 2 <= placed.width + 0.01, "inside, across");
    assert.ok(placed.y[i]! - heights[i]! / 2 >= -0.01 && placed.y[i]! + heights[i]! / 2 <= placed.height + 0.01, "inside, down");
    for (let j = 0; j < i; j++) {
      const apart = Math.abs(placed.x[i]! - placed.x[j]!) >= (widths[i]! + widths[j]!) / 2 - 0.01 || Math.abs(placed.y[i]! - placed.y[j]!) >= (heights[i]! + heights[j]!) / 2 - 0.01;
      assert.ok(apart, `boxes ${j} and ${i} lie on each other`);
    }
  }
}

test("boxes never lie on each other, and edges lead down", () => {
  for (let seed = 1; seed <= 25; seed++) {
    const next = numbers(seed);
    const total = 3 + next(40);
    const edges = randomEdges(total, next);
    const made = problem(total, edges, seed);
    const placed = solve([made], new Map())[0]!;
    noOverlap(made, placed);
    for (const [a, b] of edges) assert.ok(placed.y[a]! < placed.y[b]!, `seed ${seed}: ${a} above ${b}`);
  }
});

test("boxes of what is too large for the library do not lie on each other either", () => {
  const next = numbers(7);
  const edges = Array.from({ length: 900 }, (): [number, number] => [next(400), next(400)]).filter(([a, b]) => a < b);
  const made = problem(400, edges, 7);
  noOverlap(made, solve([made], new Map())[0]!);
});

test("boxes that call back a scope do not lie on each other, nor on what follows", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const next = numbers(seed);
    const total = 4 + next(20);
    const edges = randomEdges(total, next).concat(Array.from({ length: 1 + next(6) }, (): [number, number] => [1 + next(total - 1), next(total)]));
    const made = problem(total, edges.filter(([a, b]) => a !== b), seed);
    noOverlap(made, solve([made], new Map())[0]!);
  }
  // A scope, what reads it and is read by it, and an end: as of nodes that an exporter put in without the scope's name.
  const made = problem(8, [[0, 1], [1, 2], [2, 1], [1, 3], [3, 1], [1, 4], [4, 1], [1, 5], [5, 6]], 3);
  noOverlap(made, solve([made], new Map())[0]!);
});

test("cycles and chains of thousands come to an end", () => {
  const ring = problem(5, [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 3]], 1);
  noOverlap(ring, solve([ring], new Map())[0]!);
  const chain = problem(4000, Array.from({ length: 3999 }, (_, i): [number, number] => [i, i + 1]), 2);
  const placed = solve([chain], new Map())[0]!;
  for (let i = 1; i < 4000; i++) assert.ok(placed.y[i]! > placed.y[i - 1]!);
});

test("what is far taller than the window is wrapped, in the order of reading", () => {
  for (let seed = 1; seed <= 12; seed++) {
    const next = numbers(seed);
    const total = 30 + next(60);
    const chain = Array.from({ length: total - 1 }, (_, i): [number, number] => [i, i + 1]);
    // Residual edges, and one from the first box to the last: it passes through every gutter.
    const edges = [...chain, ...Array.from({ length: 5 }, (): [number, number] => [next(total - 3), 0]).map(([a]): [number, number] => [a, a + 2]), [0, total - 1] as [number, number]];
    const tall = solve([problem(total, edges, seed)], new Map())[0]!;
    const made = problem(total, edges, seed, { shape: 1.3 });
    const placed = solve([made], new Map())[0]!;
    noOverlap(made, placed);
    assert.ok(placed.height < 0.6 * tall.height && placed.width < 2.2 * placed.height, `${placed.width} by ${placed.height}`);
    chain.forEach(([a, b], i) => {
      const [right, down] = [placed.x[b]! > placed.x[a]! + 60, placed.y[b]! > placed.y[a]!];
      assert.ok(down !== turns(placed.bends[i]!) && (down || right), `seed ${seed}: from ${a} to ${b}`);
    });
    for (const bends of placed.bends) {
      for (let i = 0; i < bends.length; i += 2) assert.ok(bends[i]! >= 0 && bends[i]! <= placed.width && bends[i + 1]! >= 0 && bends[i + 1]! <= placed.height, "lines stay inside");
    }
    // Where a line turns it lies on no box.
    for (const bends of placed.bends.filter(turns)) {
      for (let i = 0; i + 3 < bends.length; i += 2) {
        if (!isFlat(bends, i)) continue;
        const [left, right] = [Math.min(bends[i]!, bends[i + 2]!), Math.max(bends[i]!, bends[i + 2]!)];
        placed.x.forEach((x, box) => {
          const apart = x + made.widths[box]! / 2 <= left || x - made.widths[box]! / 2 >= right || Math.abs(placed.y[box]! - bends[i + 1]!) >= made.heights[box]! / 2;
          assert.ok(apart, `seed ${seed}: a line turns on box ${box}`);
        });
      }
    }
  }
});

test("what is drawn on its side has room for its title beside the layers", () => {
  const chain = Array.from({ length: 5 }, (_, i): [number, number] => [i, i + 1]);
  const made = problem(6, chain, 4, { across: true, gap: 92, least: 2000 });
  const placed = solve([made], new Map())[0]!;
  noOverlap(made, placed);
  assert.ok(Math.min(...placed.x.map((x, i) => x - made.widths[i]! / 2)) >= made.header);
  assert.ok(placed.height >= 2000, "as long as its title");
  for (let i = 1; i < 6; i++) assert.ok(placed.y[i]! - placed.y[i - 1]! >= 92 + (made.heights[i]! + made.heights[i - 1]!) / 2 - 0.01);
});

test("a graph that goes round in circles is not cut where lines lead up", () => {
  const total = 40;
  const edges = Array.from({ length: total - 1 }, (_, i): [number, number] => [i, i + 1]);
  const made = problem(total, [...edges, [total - 2, 1]], 3, { shape: 1.3 });
  noOverlap(made, solve([made], new Map())[0]!);
});

test("crossings of a border lie at the border", () => {
  // Two ins, four boxes of which one is used late, one out.
  const made = problem(7, [[0, 2], [2, 3], [3, 4], [1, 4], [4, 5], [5, 6]], 3, { ins: 2, outs: 1 });
  for (const port of [0, 1, 6]) [made.widths[port], made.heights[port]] = [8, 1];
  const { y } = solve([made], new Map())[0]!;
  assert.ok(Math.max(y[0]!, y[1]!) < Math.min(y[2]!, y[3]!, y[4]!, y[5]!));
  assert.ok(y[6]! > y[5]!);
});

test("an open scope is as large as what is in it", () => {
  const inside = problem(3, [[0, 1], [0, 2]], 4);
  const outside = problem(2, [[0, 1]], 5, { inner: [-1, 4] });
  const [first, second] = solve([inside, outside], new Map());
  assert.equal(outside.widths[1], first!.width);
  noOverlap(outside, second!);
});

test("pieces hold every edge once and share one vertex", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const next = numbers(seed);
    const total = 2 + next(60);
    const edges = randomEdges(total, next);
    assert.equal(components(total, edges).length, 1);
    const boxes: Boxes = { widths: Array(total).fill(1), heights: Array(total).fill(1), edges, top: new Set(), bottom: new Set(), gap: 46 };
    const found = pieces(boxes);
    assert.deepEqual(found.flatMap((piece) => piece.edges).sort((a, b) => a - b), edges.map((_, i) => i));
    for (const piece of found) for (const edge of piece.edges) for (const end of edges[edge]!) assert.ok(piece.vertices.includes(end));
    found.slice(1).forEach((piece, i) => assert.equal(piece.vertices[0], found[i]!.join));
  }
});

function made(): Document {
  const strings: string[] = [];
  const text = (word: string) => (strings.includes(word) ? strings.indexOf(word) : strings.push(word) - 1);
  const names = ["x", "net/conv/w", "net/conv/w/read", "net/conv/Conv2D", "net/relu", "y"];
  const ops = ["Placeholder", "Const", "Identity", "Conv2D", "Relu", "Output"];
  const graph: Graph = {
    label: "made", facts: [], constants: [], overlays: [],
    nodes: {
      name: names.map(text), op: ops.map(text), scope: [0, 2, 2, 2, 1, 0], kind: [1, 3, 0, 0, 0, 2],
      attributes: names.map((_, i) => (i === 3 ? [text("padding"), text("SAME")] : [])),
      outputs: names.map((_, i) => [text(i === 3 ? "int8" : "float"), text(i === 1 ? "3,3,1,8" : "1,8,8,8")]),
      documentation: {},
    },
    scopes: { name: ["", "net", "conv"].map(text), parent: [-1, 0, 1], kind: [0, 0, 0], repeats: [1, 1, 1], caption: [text(""), text(""), text("")] },
    edges: { from: [0, 1, 2, 3, 4], port: [0, 0, 0, 0, 0], to: [3, 2, 3, 4, 5], input: [0, 0, 1, 0, 0] },
  };
  return { version: 1, title: "made", strings, graphs: [graph], notes: [] };
}

test("a model knows its scopes, and what is stored", () => {
  const data = made();
  const model = new Model(data, data.graphs[0]!);
  assert.deepEqual(model.around(3).map((scope) => model.label(scope)), ["(root)", "net", "conv"]);
  assert.deepEqual([...model.stored], [0, 1, 1, 0, 0, 0]);
  assert.equal(model.origin(2), 1);
  assert.deepEqual([...model.nodesOf(model.scopeItem(1))].sort(), [1, 2, 3, 4]);
  assert.ok(model.holds(model.scopeItem(1), 3) && !model.holds(model.scopeItem(2), 4));
});

test("words are found where they are asked for", () => {
  const data = made();
  const model = new Model(data, data.graphs[0]!);
  const found = (words: string) => search(model, parsed(words)!).map((item) => model.name(item));
  assert.deepEqual(found("op:conv"), ["net/conv/Conv2D"]);
  assert.deepEqual(found("attr:padding=SAME"), ["net/conv/Conv2D"]);
  assert.deepEqual(found("attr:/^pad/"), ["net/conv/Conv2D"]);
  assert.deepEqual(found("shape:3x3 dtype:float"), ["net/conv/w"]);
  assert.deepEqual(found("shape:3,1"), ["net/conv/w"]);
  assert.deepEqual(found('"net/conv" read'), ["net/conv/w/read"]);
  assert.deepEqual(found("/relu$/"), ["net/relu"]);
  assert.equal(parsed("   "), undefined);
  assert.throws(() => parsed("/(/"), SyntaxError);
});

test("links say any name", () => {
  for (const node of ["a/b:0", "a&b=c#d%20", "\u202e\u05d0", "\u{1f600}", "%E0%A4"]) {
    assert.deepEqual(parse(written({ node, overlay: "time" })), { node, overlay: "time" });
  }
  assert.deepEqual(parse(written({ node: "half \ud800" })), { node: "half \ufffd" });
  assert.deepEqual(parse("#other=1&node=%E0%A4"), { node: "%E0%A4" });
});

test("colours of amounts go one way in lightness", () => {
  for (const theme of ["light", "dark"]) {
    Object.assign(globalThis, { document: { documentElement: { dataset: { theme } } } });
    const steps = Array.from({ length: 21 }, (_, i) => luminance(ramp(i / 20)));
    const sign = theme === "light" ? -1 : 1;
    steps.slice(1).forEach((value, i) => assert.ok(sign * (value - steps[i]!) > 0, `${theme} ${i}`));
  }
});

test("scopes hold the sum or the worst", () => {
  const data = made();
  const model = new Model(data, data.graphs[0]!);
  const about = { id: "t", label: "t", about: "" };
  const sum: Overlay = { ...about, kind: "amount", adds: true, values: [null, null, null, 3, 4, 1] };
  assert.equal(new Painted(model, sum).value(model.scopeItem(1)), 7);
  assert.equal(new Painted(model, sum).total(), 8);
  const worst: Overlay = { ...about, kind: "amount", worse: "low", values: [null, null, null, 30, 40, 10] };
  assert.equal(new Painted(model, worst).value(model.scopeItem(1)), 30);
  assert.deepEqual(new Painted(model, worst).top(2), [5, 3]);
  const kinds: Overlay = { ...about, kind: "category", categories: [{ label: "bad", tone: "bad" }, { label: "good", tone: "good" }], values: [1, null, null, 0, 1, 1] };
  assert.equal(new Painted(model, kinds).text(model.scopeItem(1)), "bad");
  assert.equal(new Painted(model, kinds).value(1), undefined);
});

test("twins of scopes, by name and by what is in them", () => {
  const [data, other] = [made(), made()];
  other.graphs[0]!.scopes.name[1] = other.strings.push("renamed") - 1;
  const models: [Model, Model] = [new Model(data, data.graphs[0]!), new Model(other, other.graphs[0]!)];
  const pairs = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4];
  const twins = new Twins(models, { pairs, differs: [0, 0, 0, 1, 0], differences: { 3: [0] } });
  assert.equal(twins.twin(0, models[0].scopeItem(2)), models[1].scopeItem(2));
  assert.equal(twins.twin(0, 5), undefined);
  assert.equal(twins.mark(0, models[0].scopeItem(1)), "changed");
  assert.deepEqual(twins.differences.map(({ mark }) => mark), ["changed", "only", "only"]);
  // A constant without a twin is a part of what reads it; what differs in constants alone comes last.
  const some = new Twins(models, { pairs: [0, 0, 4, 4, 3, 3, 5, 5], differs: [2, 0, 1, 0], differences: { 0: [1], 2: [0] } });
  assert.deepEqual(some.differences.map(({ items }) => items[0] ?? items[1]), [3, 0]);
});

test("words for numbers and names", () => {
  assert.deepEqual([0, 1234567, 999.9, 0.00001234, -25300].map(short), ["0", "1.23 M", "1 k", "1.23e-5", "-25.3 k"]);
  assert.deepEqual([10, 1536, 5 * 2 ** 20].map(byteText), ["10 B", "1.5 KiB", "5 MiB"]);
  assert.equal(amount(2.5e9, "FLOPs"), "2.5 GFLOPs");
  assert.deepEqual([0.25, 0.00015, 1500, 12.5, 0].map((time) => amount(time, "ms")), ["250 \u00b5s", "0.15 \u00b5s", "1.5 s", "12.5 ms", "0 ms"]);
  assert.deepEqual(distinctEnds(["a/b/Relu", "a/c/Relu", "d/c/Relu", "Add", "a/Mul"]), ["b/Relu", "a/c/Relu", "d/c/Relu", "Add", "Mul"]);
  assert.deepEqual(distinctEnds(["same/x", "same/x", "x"]), ["same/x", "same/x", "x"]);
  assert.deepEqual(["a/b", "a/", "b"].map(lastPart), ["b", "a/", "b"]);
  assert.deepEqual(["", "*", "1,?,3"].map(shapeText), ["scalar", "any rank", "1\u00d7?\u00d73"]);
  assert.equal(clean("a\u0000\u202eb\ud800"), "a\u2400\u25a1b\u25a1");
});
