/** What the reader chose: everything else on the screen follows from it. */

import type { Item } from "./model.ts";

export interface Switches {
  /** Draw control edges. */
  control: boolean;
  /** Draw constants as boxes of their own. */
  constants: boolean;
  /** Draw from left to right, not from top to bottom. */
  across: boolean;
  /** Attributes whose names match this stand on the boxes; "" for none. */
  attributes: string;
}

/** Of one graph. */
export interface Place {
  expanded: ReadonlySet<Item>;
  selected: Item | null;
}

/** One entry of the history. */
export interface Snapshot {
  graph: number;
  places: Place[];
  overlay: string | null;
}
