// Bundles the scripts and styles of the pages into the folder given, with the licences of what is inside.
//
//     node build.mjs ../src/thinflow/pages/static
//
// Each folder with a main.ts is a page: NAME.js, NAME.css and NAME.licenses.txt. A worker.ts beside it is a bundle of its own, which
// the page finds as the text of its element with the id "worker": a page opened from a file may load no script.

import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = resolve(process.argv[2] ?? join(here, "..", "build", "pages"));
mkdirSync(output, { recursive: true });

/** Bundle one entry; returns the packages that went in. */
async function bundle(entry, name) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [{ in: entry, out: name }],
    outdir: output,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none", // the licences go into the page whole
    metafile: true,
    logLevel: "warning",
  });
  return packagesIn(Object.keys(result.metafile.inputs));
}

function packagesIn(files) {
  const found = files.map((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return found.filter((name) => name !== undefined);
}

function licenceOf(name) {
  const folder = join(here, "node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence file`);
  const text = readFileSync(join(folder, file), "utf8").trim();
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
}

const rule = `\n${"-".repeat(80)}\n\n`;
for (const folder of readdirSync(here).sort()) {
  if (!existsSync(join(here, folder, "main.ts"))) continue;
  const entries = [[`${folder}/main.ts`, folder]];
  if (existsSync(join(here, folder, "worker.ts"))) entries.push([`${folder}/worker.ts`, `${folder}-worker`]);
  const packages = new Set();
  for (const [entry, name] of entries) for (const found of await bundle(entry, name)) packages.add(found);
  writeFileSync(join(output, `${folder}.licenses.txt`), [...packages].sort().map(licenceOf).join(rule));
}
