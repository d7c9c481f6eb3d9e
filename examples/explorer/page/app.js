// The page: reads a state and a body, calls the worker, and shows the results.
import { bar, element, map, shape } from './charts.js';

const LISTED = 20000;
const PAGE = 50;
const SHOWN = 200000;
const $ = (id) => document.getElementById(id);
const count = (number) => Math.round(number).toLocaleString('en');
const decimal = (number, digits = 1) => number.toLocaleString('en', { maximumFractionDigits: digits });
const percent = (share) => `${decimal(share * 100, share > 0 && share < 0.1 ? 1 : 0)} %`;
const size = (bytes) => (bytes < 10000 ? `${count(bytes)} B` : bytes < 1e7 ? `${decimal(bytes / 1000)} kB` : `${decimal(bytes / 1e6)} MB`);

const input = { state: '', body: new Uint8Array(), config: '{}', nodes: [] };
let explained;
let drawMap = () => {};
let page = 0;

// --- the worker

const worker = new Worker('worker.js', { type: 'module' });
const asked = new Map();

worker.onmessage = ({ data: { number, answer, problem } }) => {
  const { resolve, reject } = asked.get(number);
  asked.delete(number);
  if (problem === undefined) resolve(answer);
  else reject(new Error(problem));
};

let numbers = 0;
function ask(question, ...values) {
  return new Promise((resolve, reject) => {
    numbers += 1;
    asked.set(numbers, { resolve, reject });
    worker.postMessage({ number: numbers, question, values });
  });
}

// --- input

async function read(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const isZipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!isZipped) return { bytes, text: new TextDecoder().decode(bytes) };
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return { bytes, text: await new Response(plain).text().catch(() => '') };
}

const isBody = (text) => /^\s*\{\s*"(index|create|update|delete)"\s*:/.test(text);

async function take(files) {
  for (const file of files) {
    const { bytes, text } = await read(file);
    const isState = !isBody(text) && text.trimStart().startsWith('{');
    await attempt(() => (isState ? useState(text, file.name) : useBody(bytes, text, file.name)));
  }
}

/** Runs an action, and shows its error, if any. */
async function attempt(act) {
  $('problem').hidden = true;
  try {
    await act();
  } catch (error) {
    $('problem').textContent = error.message;
    $('problem').hidden = false;
  }
}

async function useState(text, from, config = input.config) {
  input.nodes = await ask('load', text, config);
  Object.assign(input, { state: text, config });
  const names = input.nodes.map((node) => node.name).join(', ');
  $('state-is').textContent = `${from}: ${input.nodes.length} nodes (${names.length > 60 ? `${names.slice(0, 60)}…` : names})`;
  $('state-text').value = text.length < SHOWN ? text : '';
  if (input.body.length) await explain();
}

async function useBody(bytes, text, from) {
  input.body = bytes;
  $('body-is').textContent = `${from}: ${size(bytes.length)}`;
  $('body-text').value = text.length < SHOWN ? text : '';
  await explain();
}

async function fetchFrom(address) {
  const base = address.replace(/\/+$/, '');
  const told = $('fetched');
  told.replaceChildren();
  const tell = (what, text) => told.append(element('li', {}, `${what}: ${text}`));
  const get = async (what) => {
    const response = await fetch(`${base}/${what}`).catch(() => {
      throw new Error('the browser may not read it from another address. Pass the address to serve.py and load from /filter, or save it and open the file');
    });
    if (!response.ok) throw new Error(`not available, status ${response.status}: the filter has no such page, or has no state yet`);
    return response.text();
  };
  const [status, state, sample] = await Promise.allSettled(['status', 'state', 'sample'].map(get));
  const why = (result) => result.reason?.message;
  let config = input.config;
  if (status.status === 'fulfilled') {
    const configuration = configurationIn(status.value);
    if (configuration) $('config').value = config = JSON.stringify(configuration, null, 2);
    tell('status', configuration ? 'the configuration is the filter’s' : 'it has no readable configuration');
  } else tell('status', why(status));
  if (state.status === 'fulfilled') {
    await useState(state.value, 'running filter', config);
    tell('state', 'loaded');
  } else tell('state', why(state));
  if (sample.status === 'fulfilled') {
    await useBody(new TextEncoder().encode(sample.value), sample.value, 'running filter');
    tell('sample', 'loaded');
  } else tell('sample', why(sample));
}

function configurationIn(status) {
  try {
    const { config, configuration } = JSON.parse(status);
    return configuration ?? config;
  } catch {
    return undefined;
  }
}

// --- the handling of the request

async function explain() {
  const { explanation, forwarding } = await ask('explain', input.body, $('path').value, LISTED);
  explained = explanation;
  page = 0;
  showVerdict(explanation, forwarding);
  showForwarding(forwarding, explanation);
  showNodes(explanation);
  showShards(explanation);
  showOperations();
  await simulate();
}

function showVerdict({ way, because, operations, bytes, shares, unrouted, any_node, skew, nodes }, { without, with: filtered }) {
  const whole = way === 'passed_whole';
  const place = because?.line === undefined ? '' : ` Line ${count(because.line)}, operation ${count(because.operation)}${because.name ? `, “${because.name}”` : ''}.`;
  const [what, leave] = operations === 1 ? ['operation', 'leaves'] : ['operations', 'leave'];
  const parts = [`${count(operations)} ${what}, ${size(bytes)}, `, element('strong', {}, `${leave} in ${shares === 1 ? 'one batch' : `${shares} batches`}`), '.'];
  for (const { reason, operations: number } of unrouted) parts.push(` ${count(number)} go to the coordinator (${reason}).`);
  if (any_node.operations) parts.push(` ${count(any_node.operations)} without an id go to any node.`);
  $('verdict').replaceChildren(...(whole
    ? [element('strong', { class: 'whole' }, `Passes through (${because.reason}).`), ` ${because.text}${place}`]
    : parts));
  $('crossing').replaceChildren(
    element('span', { class: 'without' }, percent(without.share)), element('span', { class: 'arrow' }, ' → '),
    element('span', { class: 'with' }, percent(filtered.share)), element('small', {}, 'of the operations: directly → filtered'));
  const times = (value) => (value === null ? '–' : `× ${decimal(value, 2)}`);
  $('node-skew').replaceChildren(times(skew.nodes), element('small', {}, `the average of ${nodes.filter((total) => total.node).length} nodes`));
  $('shard-skew').replaceChildren(times(skew.shards), element('small', {}, 'the average of the shards written to'));
}

function showForwarding({ without, with: filtered, range, nodes }, { operations }) {
  const way = (name, kind, { share, operations: number, bytes }, more) => element('div', { class: 'way' },
    element('p', {}, name), bar(share, `bar-${kind}`),
    element('p', { class: 'told' }, `${percent(share)}: ${count(number)} of ${count(operations)} operations, ${size(bytes)}${more}`));
  $('ways').replaceChildren(
    way('Directly', 'without', without, `, on average over ${nodes} nodes; ${percent(range[0])} to ${percent(range[1])}, depending on the node that receives it`),
    way('With the filter', 'with', filtered, ''));
}

function showNodes({ nodes, shards, operations }) {
  const indices = [...new Set(shards.map(({ index }) => index))];
  const kind = (index) => `s${indices.indexOf(index) % 6}`;
  const rows = nodes.map(({ node, upstream, operations: sum }) => ({
    name: node?.name ?? upstream,
    sum,
    pieces: shards.filter((shard) => shard.node && shard.node.id === node?.id && shard.operations).map((shard) => ({
      number: shard.operations, kind: kind(shard.index), short: `${shard.shard}`, label: `${shard.index}, shard ${shard.shard}: ${shard.operations}`,
    })),
  }));
  const legend = indices.slice(0, 12).map((index) => element('li', {},
    shape('svg', { viewBox: '0 0 8 8', 'aria-hidden': 'true' }, shape('rect', { class: kind(index), width: 8, height: 8, rx: 1.5 })), `${index}, by shard`));
  drawMap = () => $('map').replaceChildren(map(rows, Math.max(240, $('map').clientWidth)), element('ul', { class: 'legend' }, ...legend));
  drawMap();
  const most = Math.max(1, ...nodes.map((total) => total.operations));
  table('nodes', 'Operations and bytes for each node', ['Node', 'Upstream', '', '#Operations', '#Share', '#Bytes'],
    nodes.map(({ node, upstream, operations: number, bytes }) => [
      node ? `${node.name}` : 'any (coordinator)', upstream, bar(number / most, node ? 'bar-with' : 'bar-without'), count(number), percent(number / Math.max(1, operations)), size(bytes),
    ]));
}

function showShards({ shards, shards_left_out, operations }) {
  const most = Math.max(1, ...shards.map((shard) => shard.operations));
  const left = shards_left_out ? `; ${count(shards_left_out)} more are not shown` : '';
  table('shards', `Operations and bytes for each shard${left}`, ['Index', '#Shard', 'Node', '', '#Operations', '#Share', '#Bytes'],
    shards.map(({ index, shard, node, operations: number, bytes }) => [
      index, `${shard}`, node?.name ?? 'none started', bar(number / most, 'bar-with'), count(number), percent(number / Math.max(1, operations)), size(bytes),
    ]));
}

/** Fills a table. Headings that begin with # belong to numbers, empty ones to bars. */
function table(id, caption, headings, rows) {
  const kinds = headings.map((heading) => (heading.startsWith('#') ? 'number' : heading ? 'long' : 'bar'));
  const cell = (content, number) => (number
    ? element('td', { class: kinds[number] }, content)
    : element('th', { scope: 'row' }, content));
  const head = headings.map((heading, number) => (heading
    ? element('th', { scope: 'col', class: kinds[number] === 'number' ? 'number' : undefined }, heading.replace('#', ''))
    : element('td', { class: 'bar' })));
  $(id).replaceChildren(element('caption', {}, caption), element('thead', {}, element('tr', {}, ...head)),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map(cell)))));
}

// --- single operations

function found() {
  const wanted = $('search').value.trim().toLowerCase();
  if (!wanted) return explained.listed;
  return explained.listed.filter((operation) =>
    [operation.name, operation.index, operation.id, operation.action, operation.routing, operation.node?.name, operation.upstream, operation.unrouted?.reason]
      .some((text) => text?.toLowerCase().includes(wanted)));
}

function showOperations() {
  const operations = found();
  const pages = Math.max(1, Math.ceil(operations.length / PAGE));
  page = Math.min(page, pages - 1);
  const headings = ['#', 'Line', 'Action', 'Index', 'Id', 'Shard', 'Goes to', 'Bytes', ''];
  const left = explained.left_out ? `, the first ${count(explained.listed.length)} of ${count(explained.operations)}` : '';
  const head = headings.map((heading) => (heading ? element('th', { scope: 'col', class: /#|Line|Shard|Bytes/.test(heading) ? 'number' : undefined }, heading) : element('td')));
  const body = element('tbody');
  for (const operation of operations.slice(page * PAGE, (page + 1) * PAGE)) body.append(row(operation));
  $('operations').replaceChildren(element('caption', {}, `${count(operations.length)} operation${operations.length === 1 ? '' : 's'}${left}`), element('thead', {}, element('tr', {}, ...head)), body);
  $('page').textContent = `Page ${page + 1} of ${pages}`;
  $('before').disabled = page === 0;
  $('after').disabled = page === pages - 1;
}

function row(operation) {
  const { position, line, action, name, index, id, choice, node, upstream, bytes, unrouted, missing_id } = operation;
  const why = element('button', { type: 'button', 'aria-expanded': 'false', 'aria-label': `Why operation ${position} goes there` }, 'Why');
  const made = element('tr', {},
    element('td', { class: 'number' }, `${position}`), element('td', { class: 'number' }, `${line}`), element('td', {}, action),
    element('td', { class: 'long' }, index && index !== name ? `${name} → ${index}` : name ?? ''),
    element('td', { class: 'long' }, id ?? `none (${missing_id})`), element('td', { class: 'number' }, choice ? `${choice.shard}` : '–'),
    element('td', {}, unrouted ? `${upstream} (${unrouted.reason})` : node?.name ?? upstream), element('td', { class: 'number' }, count(bytes)),
    element('td', {}, why));
  why.onclick = () => {
    const isOpen = why.getAttribute('aria-expanded') === 'true';
    why.setAttribute('aria-expanded', `${!isOpen}`);
    if (isOpen) made.nextElementSibling.remove();
    else made.after(element('tr', { class: 'why' }, element('td', { colspan: 9 }, reasons(operation))));
  };
  return made;
}

/** Returns the reasons for an operation's destination, step by step. */
function reasons({ name, index, kind, id, routing, missing_id, choice, node, upstream, unrouted }) {
  const steps = [];
  const code = (text) => element('code', {}, text);
  if (kind && kind !== 'index') steps.push([code(name), ` is ${{ alias: 'an alias', data_stream: 'a data stream', data_stream_alias: 'an alias of a data stream' }[kind]}; it writes to the index `, code(index), '.']);
  if (missing_id === 'generate') steps.push(['It has no id: the filter generates one and routes by it. This is an example of such an id.']);
  if (missing_id === 'direct') steps.push(['It has no id: all such operations of this request for the index get the routing value ', code(routing), ', which leads to one shard.']);
  if (choice) {
    const { hash, modulus, factor, shard, partition_size } = choice;
    const rest = ((hash % modulus) + modulus) % modulus;
    const of = routing ?? id ?? 'the id';
    const what = partition_size ? `murmur3(${JSON.stringify(of)}) + (murmur3(id) mod ${partition_size})` : `murmur3(${JSON.stringify(of)})`;
    steps.push(['Hash of the ', routing === undefined ? 'id' : 'routing value', ': ', code(`${what} = ${hash}`)]);
    steps.push(['Shard: ', code(`${hash} mod ${modulus} = ${rest}`), factor === 1 ? '' : code(`, ${rest} / ${factor} = ${decimal(rest / factor, 3)}`), ' → shard ', element('strong', {}, `${shard}`), factor === 1 ? ` of ${modulus}.` : ` of ${modulus / factor}; the index can be split into up to ${modulus}.`]);
  } else if (!unrouted) steps.push(['It has no id, so the node that receives it generates one, and forwards it to the shard of that id.']);
  if (unrouted) steps.push([`${unrouted.text} It goes to the coordinator.`]);
  else if (node) steps.push([choice ? 'Its primary shard is on ' : 'Round robin sends it to ', element('strong', {}, node.name), ' (', code(node.id), '), whose upstream is ', code(upstream), '.']);
  return element('ol', {}, ...steps.map((step) => element('li', {}, ...step)));
}

// --- many requests

let simulations = 0;
async function simulate() {
  const form = new FormData($('settings'));
  const settings = Object.fromEntries([...form].filter(([name]) => name !== 'early_release').map(([name, value]) => [name, Number(value)]));
  settings.early_release = form.has('early_release');
  settings.path = $('path').value;
  simulations += 1;
  const own = simulations;
  $('simulated').textContent = 'Simulating …';
  try {
    const report = await ask('simulate', input.body, settings);
    if (own === simulations) showReport(report);
  } catch (error) {
    if (own !== simulations) return;
    $('simulated').textContent = `Not simulated: ${error.message}.`;
    $('batch').replaceChildren('–', element('small', {}, 'nothing to simulate'));
    for (const id of ['outcome', 'sizes']) $(id).replaceChildren();
  }
}

function showReport({ settings, with: filtered, without }) {
  const whole = filtered.passed_whole ? ` ${count(filtered.passed_whole)} of them pass through.` : '';
  $('simulated').textContent = `${count(filtered.requests)} requests of ${settings.operations} operations in ${decimal(filtered.seconds)} virtual seconds.${whole}`;
  $('batch').replaceChildren(
    element('span', { class: 'without' }, decimal(without.batches.operations)), element('span', { class: 'arrow' }, ' → '),
    element('span', { class: 'with' }, decimal(filtered.batches.operations)),
    element('small', {}, `on a node, at ${count(settings.rate)} requests/s of ${settings.operations}`));
  const busiest = (run) => Math.max(0, ...run.nodes.map((node) => node.busy));
  const rows = [
    ['Batches', (run) => count(run.batches.count)],
    ['Operations per batch, mean', (run) => decimal(run.batches.operations)],
    ['Operations per batch, maximum', (run) => count(run.batches.most_operations)],
    ['Requests per batch, mean', (run) => decimal(run.batches.requests)],
    ['Forwarded operations', (run) => count(run.forwarded)],
    ['Busy time of the busiest node', (run) => percent(busiest(run))],
    ['Latency, median', (run) => `${decimal(run.latency.p50)} ms`],
    ['Latency, 95th percentile', (run) => `${decimal(run.latency.p95)} ms`],
    ['Latency, 99th percentile', (run) => `${decimal(run.latency.p99)} ms`],
  ];
  table('outcome', 'The same requests, directly and with the filter', ['Outcome', '#Directly', '#With the filter'],
    rows.map(([name, of]) => [name, of(without), of(filtered)]));
  const bounds = [...new Set([...without.batches.sizes, ...filtered.batches.sizes].map(([bound]) => bound))].sort((a, b) => a - b);
  const share = (run, bound) => (run.batches.sizes.find(([most]) => most === bound)?.[1] ?? 0) / Math.max(1, run.batches.count);
  const name = (bound) => (bound <= 2 ? `${bound}` : `${bound / 2 + 1} to ${bound}`);
  table('sizes', 'Sizes of batches', ['Operations', 'Directly', '', 'With the filter', ''],
    bounds.map((bound) => [name(bound), percent(share(without, bound)), bar(share(without, bound), 'bar-without'), percent(share(filtered, bound)), bar(share(filtered, bound), 'bar-with')]));
}

// --- events

const fromText = (id) => new TextEncoder().encode($(id).value);

for (const id of ['state-file', 'body-file']) {
  $(id).onchange = () => take($(id).files).then(() => ($(id).value = ''));
}
$('state-use').onclick = () => attempt(() => useState($('state-text').value, 'pasted'));
$('body-use').onclick = () => attempt(() => useBody(fromText('body-text'), $('body-text').value, 'pasted'));
$('config-use').onclick = () => attempt(() => useState(input.state, $('state-is').textContent.split(':')[0], $('config').value.trim() || '{}'));
$('fetch').onclick = () => attempt(() => fetchFrom($('admin').value));
$('path').onchange = () => attempt(explain);
$('settings').onsubmit = (event) => {
  event.preventDefault();
  simulate();
};
$('search').oninput = () => {
  page = 0;
  showOperations();
};
const turn = (by) => () => {
  page += by;
  showOperations();
};
$('before').onclick = turn(-1);
$('after').onclick = turn(1);

let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width !== width) drawMap();
  width = contentRect.width;
}).observe($('map'));

let entered = 0;
const mark = (by) => {
  entered = by ? Math.max(0, entered + by) : 0;
  $('drop').classList.toggle('dragging', entered > 0);
};
document.ondragenter = () => mark(1);
document.ondragleave = () => mark(-1);
document.ondragover = (event) => event.preventDefault();
document.ondrop = (event) => {
  event.preventDefault();
  mark(0);
  take(event.dataTransfer.files);
};

await attempt(async () => {
  const { state, body } = await ask('sample');
  await useState(state, 'Sample');
  await useBody(new TextEncoder().encode(body), body, 'Sample');
});
