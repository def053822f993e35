/** Back and forward through what was opened and selected, by the browser's own buttons where it lets a page do so. */

import type { Snapshot } from "./state.ts";

export class Past {
  private readonly entries: Snapshot[] = [];
  private at = -1;

  constructor(private readonly restore: (snapshot: Snapshot, fragment: string) => void) {
    window.addEventListener("popstate", (event) => {
      const place = (event.state as { explorer?: number } | null)?.explorer;
      if (place === undefined) return; // a fragment that was typed: see hashchange
      this.go(place);
    });
  }

  get canBack(): boolean {
    return this.at > 0;
  }

  get canForward(): boolean {
    return this.at < this.entries.length - 1;
  }

  /** A new entry after the present one; what lay ahead is forgotten. */
  push(snapshot: Snapshot, fragment: string): void {
    this.entries.splice(this.at + 1);
    this.entries.push(snapshot);
    this.at = this.entries.length - 1;
    this.write(this.at === 0 ? "replaceState" : "pushState", fragment);
  }

  /** The present entry said anew. */
  replace(snapshot: Snapshot, fragment: string): void {
    if (this.at < 0) return this.push(snapshot, fragment);
    this.entries[this.at] = snapshot;
    this.write("replaceState", fragment);
  }

  back(): void {
    this.step(-1);
  }

  forward(): void {
    this.step(1);
  }

  private step(by: number): void {
    if (this.entries[this.at + by] === undefined) return;
    if ((history.state as { explorer?: number } | null)?.explorer === this.at) history.go(by);
    else this.go(this.at + by);
  }

  private go(place: number): void {
    const snapshot = this.entries[place];
    if (snapshot === undefined) return;
    this.at = place;
    this.restore(snapshot, location.hash);
  }

  private write(how: "pushState" | "replaceState", fragment: string): void {
    try {
      history[how]({ explorer: this.at }, "", fragment);
    } catch {
      // A page inside another one, as in the preview of a mail, may not: the buttons of the page still work.
    }
  }
}
