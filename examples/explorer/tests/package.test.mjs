// Packs the package, installs it into an empty folder, and uses it there as its README says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(HERE, '../../..');
const PACKAGE = join(ROOT, 'dist/explorer/package');
const FOLDER = join(process.env.FOLDER, 'user');
const NPM = join(ROOT, '.tools/node/lib/node_modules/npm/bin/npm-cli.js');
const TSC = join(ROOT, '.tools/typescript/node_modules/typescript/bin/tsc');
const expected = JSON.parse(readFileSync(process.env.EXPECTED, 'utf8'));
const NAME = 'bulk-reshuffle-explorer';
let packed;
let api;

const node = (...command) => execFileSync(process.execPath, command, { cwd: FOLDER, encoding: 'utf8' });

before(async () => {
  mkdirSync(FOLDER);
  const npm = (...command) => node(NPM, ...command, '--cache', join(process.env.FOLDER, 'cache'));
  [packed] = JSON.parse(npm('pack', PACKAGE, '--json'));
  writeFileSync(join(FOLDER, 'package.json'), '{"private": true, "type": "module"}');
  npm('install', '--offline', '--no-audit', '--no-fund', join(FOLDER, packed.filename));
  writeFileSync(join(FOLDER, 'use.js'), `export * from '${NAME}';`);
  api = await import(pathToFileURL(join(FOLDER, 'use.js')));
});

test('it has what it needs and nothing else', () => {
  assert.deepEqual(packed.files.map(({ path }) => path).sort(), [
    'LICENSE', 'README.md', 'api.js', 'browser.js', 'core.js', 'core_bg.wasm', 'index.d.ts', 'node.js', 'package.json',
  ]);
  assert.equal(packed.version, expected.version);
  assert.ok(packed.size < 1_000_000, `${packed.size} bytes`);
  console.log(`${packed.filename}: ${packed.size} bytes, ${packed.unpackedSize} unpacked`);
});

test('the example of its README tells the shard of an id', () => {
  const readme = readFileSync(join(FOLDER, 'node_modules', NAME, 'README.md'), 'utf8');
  const [, example] = /```js\n(.*?)```/s.exec(readme);
  assert.ok(example.trim().split('\n').length <= 6);
  writeFileSync(join(FOLDER, 'example.js'), example);
  writeFileSync(join(FOLDER, 'state.json'), expected.state);
  const { index, shard, node: { name } } = expected.place;
  assert.equal(node('example.js'), `${index}[${shard}] on ${name}\n`);
});

test('shards are those of core', () => {
  const cluster = new api.Cluster(expected.state);
  for (const { id, shard, hash } of expected.vectors) {
    const { choice } = cluster.shardOf('orders', id);
    assert.deepEqual([choice.shard, choice.hash], [shard, hash], id);
    assert.equal(cluster.shardOf('orders', 'any', id).shard, shard);
  }
});

test('explanations are those of core, however state and body are handed in', () => {
  const { state, body, explanation, forwarding } = expected;
  const bytes = (text) => new TextEncoder().encode(text);
  for (const [given, sent] of [[state, body], [bytes(state), bytes(body)], [JSON.parse(state), body], [new api.Cluster(state), body]]) {
    assert.deepEqual(api.explain(given, sent), explanation);
    assert.deepEqual(api.forwarding(given, sent), forwarding);
  }
  assert.equal(api.explain(state, body, { path: '/_bulk?pipeline=p' }).because.reason, 'pipeline');
  assert.equal(api.explain(state, body, { config: { enabled: false } }).because.reason, 'switched_off');
  assert.equal(api.simulate(state, body, { requests: 10 }).with.requests, 10);
  assert.throws(() => api.shardOf(state, 'nothing', '1'), /unknown_index/);
  assert.throws(() => api.simulate(state, body, { speed: 1 }), /speed/);
});

test('types are those of what comes back', () => {
  cpSync(join(HERE, 'types.ts'), join(FOLDER, 'types.ts'));
  const { state, body } = expected;
  const broken = '{"index":{"_index":"nothing"}}\n{}\n';
  const values = [
    ['Place', api.shardOf(state, 'logs', 'a')],
    ['Explanation', api.explain(state, body, { listed: 20 })],
    ['Explanation', api.explain(state, broken)],
    ['Explanation', api.explain(state, '{"index":{"_index":"logs"}}\n{}\n', { config: { missing_id: 'pass' } })],
    ['Forwarding', api.forwarding(state, body)],
    ['Report', api.simulate(state, body, { requests: 50 })],
    ['Node[]', new api.Cluster(state).nodes],
  ];
  const lines = values.map(([type, value], number) => `export const value${number}: api.${type} = ${JSON.stringify(value)};`);
  writeFileSync(join(FOLDER, 'values.ts'), [`import type * as api from '${NAME}';`, ...lines].join('\n'));
  node(TSC, '--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--module', 'nodenext', 'types.ts', 'values.ts');
});
