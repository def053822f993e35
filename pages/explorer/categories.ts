/** What kind of work an op does, by the words in its name: for colours only, so a wrong guess costs nothing. */

import { type Model, type Item } from "./model.ts";
import { NodeKind } from "./schema.ts";

/** First match wins; names without underscores, in lower case, of any framework. */
const RULES: [string, RegExp][] = [
  ["quantize", /quant/],
  ["norm", /norm|^lrn$/],
  ["conv", /conv/],
  ["matrix", /matmul|gemm|fullyconnected|dense|einsum|attention|lstm|gru|rnn/],
  ["activation", /relu|sigmoid|logistic|tanh|softmax|softplus|[gs]?elu$|swish|clip|^erf$|^mish$/],
  ["reduce", /pool|reduce|^(mean|sum|max|min|prod|any|all)$|arg(max|min)|topk|nonmaxsuppression/],
  ["shape", /shape|transpose|squeeze|dims|pack|stack|concat|split|slice|gather|pad|cast|flatten|identity|tile|expand|depthtospace|spacetodepth|resize|fill|range/],
  ["control", /^(while|if|switch|merge|enter|exit|nextiteration|loopcond|loop|scan|noop|assert|.*call)$/],
  ["elementwise", /add|sub|mul|div|pow|sqrt|exp|log|abs|neg|square|maximum|minimum|equal|greater|less|and$|or$|not$|where|select|round|floor|ceil|sin|cos|mod/],
];

/** Category and its name for the reader. */
export const CATEGORIES: [string, string][] = [
  ["conv", "convolution"],
  ["matrix", "matrix, recurrent"],
  ["norm", "normalization"],
  ["activation", "activation"],
  ["elementwise", "elementwise"],
  ["reduce", "pooling, reduction"],
  ["shape", "shape, data movement"],
  ["quantize", "quantization"],
  ["control", "control flow, calls"],
  ["constant", "constant"],
  ["end", "input, output"],
  ["other", "other"],
];

const found = new Map<string, string>();

export function categoryOfOp(op: string): string {
  let category = found.get(op);
  if (category === undefined) {
    const plain = op.toLowerCase().replaceAll("_", "");
    category = RULES.find(([, words]) => words.test(plain))?.[0] ?? "other";
    found.set(op, category);
  }
  return category;
}

export function categoryOf(model: Model, item: Item): string {
  if (model.isScope(item)) return "scope";
  const kind = model.kind(item);
  if (kind === NodeKind.Input || kind === NodeKind.Output) return "end";
  if (kind === NodeKind.Constant || kind === NodeKind.Variable) return "constant";
  if (kind === NodeKind.Call) return "control";
  return categoryOfOp(model.op(item));
}
