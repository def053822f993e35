/** From a block to what is shown of it. */

import type { Block } from "../schema.ts";
import { bars } from "../charts/bars.ts";
import { distribution } from "../charts/distribution.ts";
import { intervals } from "../charts/intervals.ts";
import { layers } from "../charts/layers.ts";
import { scatter } from "../charts/scatter.ts";
import { ledger } from "./ledger.ts";
import { listing } from "./listing.ts";
import { samples } from "./samples.ts";
import { table } from "./table.ts";
import { commands, facts, notes, text } from "./words.ts";

export function draw(block: Block): HTMLElement {
  switch (block.kind) {
    case "text":
      return text(block);
    case "notes":
      return notes(block);
    case "facts":
      return facts(block);
    case "table":
      return table(block);
    case "listing":
      return listing(block);
    case "commands":
      return commands(block);
    case "bars":
      return bars(block);
    case "distribution":
      return distribution(block);
    case "intervals":
      return intervals(block);
    case "scatter":
      return scatter(block);
    case "layers":
      return layers(block);
    case "ledger":
      return ledger(block);
    case "samples":
      return samples(block);
  }
}
