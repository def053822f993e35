/** What `thinflow view` writes into the explorer's page; `src/thinflow/explorer/document.py` holds the same types.
 *
 * Graphs of 5,000 nodes and more are sent: so columns instead of objects, and every text once, in `strings`.
 * A number that stands for a text is its place in `strings`, one that stands for a node its place in the columns.
 */

/** Index into `Document.strings`. */
export type Text = number;

export interface Document {
  version: 1;
  /** Names of files, before and after the first row of the header. */
  title: string;
  strings: string[];
  /** One graph; two to compare (`pairs` is there then); or several forms of one model, as tabs. */
  graphs: Graph[];
  /** Between graphs 0 and 1, if they are compared. */
  comparison?: Comparison;
  /** What is not shown, and why; shown to the reader. */
  notes: string[];
  /** Colours of the first picture: the id of an overlay, of what somebody asked to have measured. */
  overlay?: string;
}

export interface Graph {
  /** The tab: a file name, "before", "int8". */
  label: string;
  /** Facts on the whole, as rows of the panel while nothing is selected: ["format", "GraphDef"], ... */
  facts: [string, string][];
  nodes: Nodes;
  scopes: Scopes;
  edges: Edges;
  /** Constants, by node; few of the nodes. */
  constants: Constant[];
  overlays: Overlay[];
  /** Scopes that are open in the first picture, outermost first: a readable whole of at most some 40 boxes. */
  start?: number[];
}

/** Columns; entry i of each belongs to node i. Nodes are in topological order, as far as there is one. */
export interface Nodes {
  name: Text[];
  op: Text[];
  /** Index into `scopes`; 0 is the root. */
  scope: number[];
  kind: NodeKind[];
  /** Per node [name, value] pairs of attributes, flat. */
  attributes: Text[][];
  /** Per node, its outputs: [dtype, shape] pairs, flat; shape as "1,224,224,3" with ? for unknown, "*" without rank. */
  outputs: Text[][];
  /** Per node, quantization parameters of its outputs in words, as "scale 0.0235, zero_point -128"; absent without. */
  quantization?: Record<number, Text[]>;
  /** Per op (index into strings), the address of its documentation. */
  documentation: Record<Text, string>;
  /** Per node: words about it such as a refusal, shown in the panel; few have any. */
  remarks?: Record<number, Text[]>;
  /** By If, Case and While (kind Call): the scopes of what they call, which stand beside them. What these bodies
   * read has edges from outside straight into them, what they give has edges to the Call, as inputs behind its own.
   * Plain calls have no node: their body is a scope (kind Function) with the call's name. */
  bodies?: Record<number, number[]>;
  /** Per op (index into strings), what its inputs are for: "filter", "bias". */
  roles?: Record<Text, Text[]>;
  /** Per node, the same where it is not as with other nodes of its op. */
  rolesOfNode?: Record<number, Text[]>;
}

export enum NodeKind {
  Op = 0,
  Input = 1,
  Output = 2,
  Constant = 3,
  Variable = 4,
  /** A call of a function, If or While whose body is a scope beneath it. */
  Call = 5,
}

export interface Scopes {
  /** The last part of its name: "conv1". */
  name: Text[];
  /** Index of the parent; the root's is -1. */
  parent: number[];
  kind: ScopeKind[];
  /** How many of the same structure follow each other, for `Repeated`; else 1. */
  repeats: number[];
  /** What stands under its name, as "Conv2D ×3, 1.2 M parameters". */
  caption: Text[];
}

export enum ScopeKind {
  /** By "/" in names. */
  Named = 0,
  /** Found by structure, where names have no parts. */
  Block = 1,
  /** Several blocks of the same structure in a row. */
  Repeated = 2,
  /** Body of a function, a branch or a loop. */
  Function = 3,
}

/** Columns. */
export interface Edges {
  from: number[];
  /** Output of `from`; -1 for a control edge. */
  port: number[];
  to: number[];
  /** Input of `to`. */
  input: number[];
}

export interface Constant {
  node: number;
  dtype: Text;
  shape: Text;
  bytes: number;
  /** Absent for strings and for values that were left out of the file. */
  min?: number;
  max?: number;
  mean?: number;
  /** Share of exact zeros, 0..1. */
  zeros?: number;
  /** NaN and infinite values. */
  nonFinite?: number;
  /** How many elements were looked at, where that is not all of them. */
  sampled?: number;
  /** Counts in equal bins from min to max. */
  histogram?: number[];
  /** Filters side by side: gray (1) or colour (3) bytes, base64, one number a pixel and channel, row by row. */
  picture?: { width: number; height: number; channels: 1 | 3; pixels: string };
  /** The first values, as text. */
  values?: string;
  /** All of them: a type as numpy spells it (`<f4`), and the bytes in base64. */
  numbers?: { type: string; data: string };
}

/** A number or a word for nodes, drawn as their colour. */
export interface Overlay {
  /** "time", "flops", "bytes", "placement", "error", "range", "transforms". */
  id: string;
  label: string;
  /** What the number is, where it comes from, how it was measured. */
  about: string;
  kind: "amount" | "category";
  /** Amounts: "ms", "FLOPs", "bytes", "dB". */
  unit?: string;
  /** Small is bad (SQNR) or large is (time). */
  worse?: "high" | "low";
  /** By node: the amount, or an index into `categories`; null: nothing known. Sums over scopes if `adds` */
  values: (number | null)[];
  adds?: boolean;
  categories?: { label: string; tone: "good" | "neutral" | "warn" | "bad" }[];
  /** By node, words: why it is placed there. */
  reasons?: Record<number, Text>;
}

export interface Comparison {
  /** Pairs [node of graph 0, node of graph 1], flat. */
  pairs: number[];
  /** For each pair: 0 the same, 1 differs, 2 differs only in the constants that it reads. */
  differs: (0 | 1 | 2)[];
  /** For pairs that differ, by place in `differs`: in which way, one line each. */
  differences: Record<number, Text[]>;
}
