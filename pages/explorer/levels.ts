/** How deep scopes go, and which may be open at once. */

import type { Item, Model } from "./model.ts";

/** More boxes than this are not opened at once. */
export const GUARD = 6000;

/** Depth of the deepest scope; 0 where the root has none. */
export function levels(model: Model): number {
  let deepest = 0;
  for (let scope = model.size; scope < model.size + model.scopes; scope++) deepest = Math.max(deepest, model.around(scope).length);
  return deepest;
}

/** Scopes in one of them down to a level, the outer ones first, as long as the boxes do not become too many. */
export function withinGuard(model: Model, level: number, first = model.root): { expanded: Set<Item>; left: number } {
  const expanded = new Set<Item>();
  let [left, boxes] = [0, model.scopes === 0 ? 0 : model.childrenOf(first).length];
  let scopes = model.scopes === 0 ? [] : [first];
  for (let depth = 1; depth <= level && scopes.length > 0; depth++) {
    scopes = scopes.flatMap((scope) => model.childrenOf(scope).filter((child) => model.isScope(child)));
    scopes = scopes.filter((scope) => {
      boxes += model.childrenOf(scope).length;
      if (boxes > GUARD) {
        boxes -= model.childrenOf(scope).length;
        left++;
        return false;
      }
      expanded.add(scope);
      return true;
    });
  }
  return { expanded, left };
}
