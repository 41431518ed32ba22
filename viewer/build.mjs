/** Build the page of the viewer into the Python package. */
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

const target = new URL('../python/tessarr/web/viewer/static/', import.meta.url);
const sources = new URL('src/', import.meta.url);
const MAX_GZIP_BYTES = 600_000;

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
const result = await build({
  entryPoints: [new URL('main.tsx', sources).pathname],
  outfile: new URL('viewer.js', target).pathname,
  absWorkingDir: new URL('.', import.meta.url).pathname,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  legalComments: 'none',
  metafile: true,
  define: { 'process.env.NODE_ENV': '"production"' },
  loader: { '.woff2': 'empty' },
});
await copyFile(new URL('index.html', import.meta.url), new URL('index.html', target));
await writeFile(new URL('licenses.txt', target), await listLicenses(result.metafile));
await writeFile(new URL('sources.sha256', target), `${await hashSources()}\n`);

let size = 0;
for (const name of ['viewer.js', 'viewer.css']) {
  size += gzipSync(await readFile(new URL(name, target))).length;
}
console.log(`${size} bytes of scripts and styles after gzip`);
if (size > MAX_GZIP_BYTES) {
  throw new Error(`the bundle has more than ${MAX_GZIP_BYTES} bytes after gzip`);
}

/** Return the licences of all packages in the bundle. */
async function listLicenses(metafile) {
  const pattern = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//;
  const names = new Set(
    Object.entries(metafile.outputs)
      .flatMap(([, output]) => Object.entries(output.inputs ?? {}))
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([input]) => pattern.exec(input)?.[1])
      .filter(Boolean),
  );
  const parts = ['The viewer contains the following packages.'];
  for (const name of [...names].sort()) {
    const folder = new URL(`node_modules/${name}/`, import.meta.url);
    const { version, license } = JSON.parse(await readFile(new URL('package.json', folder)));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? (await readFile(new URL(file, folder), 'utf8')).trim() : '';
    parts.push(`${'='.repeat(72)}\n${name} ${version} (${license})\n\n${text}`.trim());
  }
  return `${parts.join('\n\n')}\n`;
}

/** Return a hash of everything that the bundle depends on; a Python test compares it. */
async function hashSources() {
  const names = (await readdir(sources)).sort().map((name) => `src/${name}`);
  const hash = createHash('sha256');
  for (const name of [...names, 'index.html', 'package-lock.json', 'build.mjs']) {
    hash.update(`${name}\0`);
    hash.update(await readFile(new URL(name, import.meta.url)));
  }
  return hash.digest('hex');
}
