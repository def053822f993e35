/** A report as data: what src/thinflow/pages/report.py writes. Field by field the same; a test compares both. */

export type Tone = "" | "good" | "warn" | "bad";
export type Unit = "" | "ms" | "bytes" | "%" | "dB" | "points" | "x";

export interface ReportDocument {
  title: string;
  verdict: string;
  tone: Tone;
  /** Why it is not finished; "" if it is. */
  unfinished: string;
  sections: Section[];
  /** The version that wrote it. */
  version: string;
  /** The report for machines, as the command prints it with --json. */
  data: unknown;
}

export interface Section {
  /** Of the address: #latency. */
  id: string;
  title: string;
  blocks: Block[];
}

export type Block =
  | Text
  | Notes
  | Facts
  | Table
  | Listing
  | Commands
  | Bars
  | Distribution
  | Intervals
  | Scatter
  | Layers
  | Ledger
  | Samples;

export interface Text {
  kind: "text";
  text: string;
  tone: Tone;
}

/** Sentences side by side: warnings, findings. */
export interface Notes {
  kind: "notes";
  items: Note[];
}

export interface Note {
  text: string;
  tone: Tone;
}

/** Figures to be seen first. */
export interface Facts {
  kind: "facts";
  items: Fact[];
}

export interface Fact {
  label: string;
  value: string;
  note: string;
  tone: Tone;
}

export type Cell = string | number | null;

export interface Table {
  kind: "table";
  columns: Column[];
  rows: Cell[][];
  title: string;
  /** Shown by a click only. */
  folded: boolean;
}

/** A table to be sorted and filtered. */
export interface Listing {
  kind: "listing";
  columns: Column[];
  /** Places of columns with few values, offered to choose from. */
  choices: number[];
  rows: Listed[];
}

export interface Listed {
  cells: Cell[];
  /** Shown below the row by a click. */
  about: string[];
}

export interface Column {
  title: string;
  unit: Unit;
  /** Names of a model, in a type of even width. */
  code: boolean;
}

export interface Commands {
  kind: "commands";
  items: Command[];
}

export interface Command {
  text: string;
  why: string;
  /** Of a program, behind its first line. */
  lines: string[];
}

/** Amounts side by side: a row for each thing, a bar for each series. */
export interface Bars {
  kind: "bars";
  title: string;
  unit: Unit;
  series: string[];
  rows: Bar[];
  note: string;
}

export interface Bar {
  label: string;
  /** One for each series; null where there is none. */
  values: (number | null)[];
}

/** Single measurements, with the interval of their median. */
export interface Distribution {
  kind: "distribution";
  title: string;
  unit: Unit;
  series: string[];
  rows: Runs[];
  note: string;
}

export interface Runs {
  label: string;
  series: number;
  /** Quantiles of the measurements, the least and the greatest among them. */
  values: number[];
  /** Of how many measurements. */
  count: number;
  median: number;
  /** The interval; null where too little was measured. */
  low: number | null;
  high: number | null;
  p99: number;
}

/** Estimates with their intervals. */
export interface Intervals {
  kind: "intervals";
  title: string;
  unit: Unit;
  series: string[];
  rows: Span[];
  /** A value to be compared with; null without one. */
  reference: number | null;
  note: string;
}

export interface Span {
  label: string;
  series: number;
  value: number;
  low: number | null;
  high: number | null;
}

/** Things by what they cost (across) and how good they are (upwards); a picture for each cost. */
export interface Scatter {
  kind: "scatter";
  title: string;
  costs: Axis[];
  gains: Axis[];
  points: Point[];
  note: string;
}

export interface Axis {
  title: string;
  unit: Unit;
  /** Which is not to be exceeded; null without one. */
  bound: number | null;
  /** Where less is better the axis runs downwards, so that up is good. */
  down: boolean;
}

export interface Point {
  label: string;
  costs: (number | null)[];
  gains: (number | null)[];
  state: "chosen" | "front" | "fits" | "misfit";
  /** Lines of the tooltip. */
  about: string[];
}

/** One figure for each layer in running order, with what it was at the layer's inputs. */
export interface Layers {
  kind: "layers";
  title: string;
  unit: Unit;
  /** Below it is bad. */
  threshold: number;
  rows: Layer[];
  /** The row where it first falls below; null if it never does. */
  first: number | null;
  note: string;
}

export interface Layer {
  label: string;
  op: string;
  before: number | null;
  after: number;
  is_float: boolean;
}

/** What each transform did, what changed something first. */
export interface Ledger {
  kind: "ledger";
  steps: Step[];
}

export interface Step {
  name: string;
  changes: number;
  left: number;
  nodes: [number, number];
  size_bytes: [number, number];
  difference: number | null;
  reasons: Reason[];
}

export interface Reason {
  text: string;
  count: number;
  example: string;
}

/** Samples that were judged, the wrong ones first. */
export interface Samples {
  kind: "samples";
  /** How the answers are called: "float", "int8". */
  models: string[];
  items: Sample[];
  note: string;
}

export interface Sample {
  name: string;
  /** The right answer; "" if nobody knows it. */
  label: string;
  /** One of each model. */
  answers: Answer[];
  /** PNG or JPEG as data:; "" if it is no picture. */
  picture: string;
  /** Least and greatest value of each stretch, from -1 to 1; empty if it is no sound. */
  wave: [number, number][];
  /** What was found on the picture. */
  boxes: Frame[];
}

export interface Frame {
  /** y1, x1, y2, x2 in shares of the picture. */
  ends: number[];
  /** Number of the model that found it. */
  model: number;
  /** Class and score. */
  text: string;
}

export interface Answer {
  text: string;
  /** "good" if right, "bad" if wrong; "warn" if it differs from the first model's and nobody knows which is right. */
  tone: Tone;
}
