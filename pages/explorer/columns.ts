/** Wraps what is far taller than the window into columns, as text is: in the order of reading, joined by lines in the gutters. */

import type { Boxes, Piece } from "./layers.ts";

/** Nothing shorter is wrapped: pixels that a window shows at full size, about. */
const TALL = 1000;
/** Of what is drawn on its side: boxes and the room for shapes between them are longer that way. */
const LONG = 1600;
/** A cut has to make the picture that much smaller. */
const GAIN = 0.72;
const MOST_COLUMNS = 48;
/** Somewhat higher columns may save a last one of a box or two. */
const SPARE = [1, 1.08, 1.16, 1.25];
/** Sources whose lines may pass through one gutter. */
const PASSING = 6;
/** From a box to the nearest line that turns, and from one such line to the next. */
const TURN = 24;
const LANE = 9;

/** A level between boxes at which the picture may be cut. */
interface Gap {
  from: number;
  to: number;
  /** By source of the lines that pass: where they are above, and below. */
  passing: Map<number, [number, number]>;
}

/** Extent across of what lies between two gaps. */
interface Band {
  left: number;
  right: number;
}

interface Column {
  left: number;
  width: number;
  /** Where the column begins and ends in the one piece. */
  from: number;
  to: number;
  dx: number;
  dy: number;
}

/** The piece in as many columns as fill a window of this shape best.
 *
 * `shape` is the width of the window by its height; 0 never wraps.
 */
export function wrapped(piece: Piece, boxes: Boxes, shape: number, across: boolean): Piece {
  if (shape <= 0 || piece.height < (across ? LONG : TALL) || piece.height * shape < 2 * piece.width) return piece;
  const lines = boxes.edges.map((_, edge) => lineOf(piece, boxes, edge));
  const gaps = gapsOf(piece, boxes, lines);
  const bands = bandsOf(piece, boxes, lines, gaps);
  let [best, least]: [number[], number] = [[], GAIN * Math.max(piece.height, piece.width / shape)];
  for (let columns = 2; columns <= MOST_COLUMNS; columns++) {
    for (const spare of SPARE) {
      const cuts = cutsFor(gaps, (spare * piece.height) / columns);
      const [width, height] = sizeOf(piece, gaps, bands, cuts);
      const size = Math.max(height, width / shape);
      if (cuts.length > 0 && size < least) [best, least] = [cuts, size];
    }
  }
  return best.length === 0 ? piece : arranged(piece, boxes, gaps, bands, best);
}

/** Whether a line goes over to another column. */
export function turns(bends: number[]): boolean {
  for (let i = 3; i < bends.length; i += 2) if (isFlat(bends, i - 3)) return true;
  return false;
}

/** Whether the stretch from the point at `i` to the next is level. */
export function isFlat(points: number[], i: number): boolean {
  return Math.abs(points[i + 1]! - points[i + 3]!) < 0.5 && Math.abs(points[i]! - points[i + 2]!) > 0.5;
}

function lineOf({ x, y, bends }: Piece, boxes: Boxes, edge: number): number[] {
  const [a, b] = boxes.edges[edge]!;
  return [x[a]!, y[a]! + boxes.heights[a]! / 2, ...bends[edge]!, x[b]!, y[b]! - boxes.heights[b]! / 2];
}

/** Levels at which no box lies and every line leads down; those of the border stay with what they lead to. */
function gapsOf({ y }: Piece, boxes: Boxes, lines: number[][]): Gap[] {
  const order = [...boxes.widths.keys()].filter((i) => !boxes.top.has(i) && !boxes.bottom.has(i));
  const top = (i: number) => y[i]! - boxes.heights[i]! / 2;
  order.sort((a, b) => top(a) - top(b));
  const gaps: Gap[] = [];
  let low = -Infinity;
  for (const i of order) {
    if (top(i) > low + TURN && low > -Infinity) gaps.push({ from: low, to: top(i), passing: new Map() });
    low = Math.max(low, y[i]! + boxes.heights[i]! / 2);
  }
  const blocked = new Set<Gap>();
  lines.forEach((line, edge) => {
    const [first, last] = [line[1]!, line[line.length - 1]!];
    for (let i = firstAt(gaps, Math.min(first, last)); i < gaps.length && gaps[i]!.to <= Math.max(first, last) + 0.5; i++) {
      const gap = gaps[i]!;
      if (last < first) blocked.add(gap);
      else gap.passing.set(boxes.edges[edge]![0], around(line, (gap.from + gap.to) / 2));
    }
  });
  return gaps.filter((gap) => !blocked.has(gap) && gap.passing.size <= PASSING);
}

/** The first gap that begins at or below a level. */
function firstAt(gaps: Gap[], level: number): number {
  let [low, high] = [0, gaps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (gaps[middle]!.from < level - 0.5) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Where a line is above a level, and below it. */
function around(line: number[], level: number): [number, number] {
  let next = 2;
  while (next < line.length - 2 && line[next + 1]! < level) next += 2;
  return [line[next - 2]!, line[next]!];
}

function bandsOf({ x, y }: Piece, boxes: Boxes, lines: number[][], gaps: Gap[]): Band[] {
  const bands = Array.from({ length: gaps.length + 1 }, () => ({ left: Infinity, right: -Infinity }));
  const see = (level: number, left: number, right: number): void => {
    const band = bands[firstAt(gaps, level)]!;
    [band.left, band.right] = [Math.min(band.left, left), Math.max(band.right, right)];
  };
  x.forEach((middle, i) => see(y[i]!, middle - boxes.widths[i]! / 2, middle + boxes.widths[i]! / 2));
  for (const line of lines) for (let i = 2; i < line.length - 2; i += 2) see(line[i + 1]!, line[i]! - 4, line[i]! + 4);
  gaps.forEach((gap, i) => {
    for (const sides of gap.passing.values()) {
      sides.forEach((at, side) => {
        const band = bands[i + side]!;
        [band.left, band.right] = [Math.min(band.left, at - 4), Math.max(band.right, at + 4)];
      });
    }
  });
  return bands;
}

/** Gaps at which to cut for columns of about this height: each the last that fits, or the first there is. */
function cutsFor(gaps: Gap[], height: number): number[] {
  const cuts: number[] = [];
  let start = 0;
  gaps.forEach((gap, i) => {
    const next = gaps[i + 1]?.from ?? Infinity;
    if (next - start <= height || gap.from - start < height / 4) return;
    cuts.push(i);
    start = gap.to;
  });
  return cuts;
}

/** Room that lines need below a column, above the next one, and between the two. */
function room(gap: Gap): { down: number; between: number } {
  const lanes = Math.max(0, gap.passing.size - 1) * LANE;
  return { down: TURN + lanes + 4, between: 2 * TURN + lanes };
}

function columnsOf(piece: Piece, gaps: Gap[], bands: Band[], cuts: number[]): Column[] {
  let [at, band] = [0, 0];
  return [...cuts, gaps.length].map((cut, number) => {
    const before = number === 0 ? undefined : gaps[cuts[number - 1]!]!;
    const after = cut < gaps.length ? gaps[cut]! : undefined;
    let [left, right] = [Infinity, -Infinity];
    for (; band <= cut; band++) [left, right] = [Math.min(left, bands[band]!.left), Math.max(right, bands[band]!.right)];
    const column = { left: at, width: right - left, from: before?.to ?? 0, to: after?.from ?? piece.height, dx: at - left, dy: before === undefined ? 0 : room(before).down - before.to };
    at += column.width + (after === undefined ? 0 : room(after).between);
    return column;
  });
}

function sizeOf(piece: Piece, gaps: Gap[], bands: Band[], cuts: number[]): [number, number] {
  const columns = columnsOf(piece, gaps, bands, cuts);
  const bottoms = columns.map(({ to, dy }, i) => to + dy + (i < cuts.length ? room(gaps[cuts[i]!]!).down : 0));
  const last = columns[columns.length - 1]!;
  return [last.left + last.width, Math.max(...bottoms)];
}

function arranged(piece: Piece, boxes: Boxes, gaps: Gap[], bands: Band[], cuts: number[]): Piece {
  const columns = columnsOf(piece, gaps, bands, cuts);
  const [width, height] = sizeOf(piece, gaps, bands, cuts);
  const columnAt = (level: number): number => {
    const found = columns.findIndex(({ to }) => level <= to + TURN / 2);
    return found < 0 ? columns.length - 1 : found;
  };
  const lanes = cuts.map((cut, i) => lanesOf(gaps[cut]!, columns[i]!, columns[i + 1]!));
  const bends = boxes.edges.map(([a, b], edge) => {
    const found: number[] = [];
    let at = columnAt(piece.y[a]!);
    const reach = (column: number): void => {
      for (; at < column; at++) found.push(...lanes[at]!.get(a)!);
    };
    const line = piece.bends[edge]!;
    for (let i = 0; i < line.length; i += 2) {
      const column = piece.y[b]! < piece.y[a]! ? at : Math.max(at, columnAt(line[i + 1]!));
      reach(column);
      found.push(line[i]! + columns[at]!.dx, line[i + 1]! + columns[at]!.dy);
    }
    reach(columnAt(piece.y[b]!));
    return found;
  });
  const homes = piece.y.map(columnAt);
  return {
    width,
    height,
    x: piece.x.map((x, i) => x + columns[homes[i]!]!.dx),
    y: piece.y.map((y, i) => (boxes.bottom.has(i) ? height : y + columns[homes[i]!]!.dy)),
    bends,
  };
}

/** For each source that passes, its way from one column to the next: down, through the gutter up, and to its place.
 *
 * Who is rightmost turns first and comes down last, so that the ways lie inside each other.
 */
function lanesOf(gap: Gap, from: Column, to: Column): Map<number, number[]> {
  const sources = [...gap.passing].sort((one, other) => other[1][0] - one[1][0]);
  return new Map(
    sources.map(([source, [above, below]], i) => {
      const lane = from.left + from.width + TURN + i * LANE;
      const [low, high] = [gap.from + from.dy + TURN + i * LANE, gap.to + to.dy - TURN - (sources.length - 1 - i) * LANE];
      return [source, [above + from.dx, low, lane, low, lane, high, below + to.dx, high]];
    }),
  );
}
