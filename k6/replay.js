// Replays recorded bulk requests at two addresses in turns, and compares the two: for example, a cluster directly and
// through Envoy with the filter. The script needs no other file:
//
//   k6 run -e BODIES=bodies.ndjson -e DIRECT=http://node:9200 -e FILTER=http://envoy:9200 k6/replay.js
//
// The page beside this file, "Your own requests", lists all parameters.

import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import http from 'k6/http';

const BODIES = required('BODIES', 'a file with recorded bulk bodies');
// The two sides of the comparison. An address may be several, separated by commas: clients have them in turn.
const SIDES = [
  { name: 'direct', parameter: 'DIRECT', addresses: addresses('DIRECT', 'of a node, or of plain Envoy') },
  { name: 'filter', parameter: 'FILTER', addresses: addresses('FILTER', 'of Envoy with the filter') },
];
const STATS = (__ENV.STATS || SIDES[0].addresses[0]).replace(/\/$/, '');
const ROUNDS = number('ROUNDS', 5, 1, 1000);
const SECONDS = number('SECONDS', 5, 1, 3600);
const WARM_UP = number('WARM_UP', SECONDS, 1, 3600);
const CLIENTS = number('CLIENTS', 8, 1, 10000);
// Requests per second; with 0, each client sends its next request as soon as it has an answer.
const RATE = number('RATE', 0, 0, 1000000);
const SPEED = RATE ? `at ${RATE} requests/s` : 'as fast as they go';
// The most requests of a turn.
const REQUESTS = number('REQUESTS', 100000, 1, 10000000);
const TIMEOUT = number('TIMEOUT', 60, 1, 3600);
const PREFIX = __ENV.PREFIX === undefined ? 'replay-' : __ENV.PREFIX;
const CREATE = oneOf('CREATE', ['create', 'index']);
const BULK_PATH = withFilterPath(__ENV.BULK_PATH || '/_bulk');
const AUTHORIZATION = __ENV.AUTHORIZATION || '';
// The beginning of a file name for the figures of all turns; without it, none is written.
const RESULTS = __ENV.RESULTS;

// Marks the indices that this script makes. It never removes any other index.
const MAKER = 'k6/replay.js of bulk-reshuffle';
// The settings of an index that its copies get.
const COPIED = ['number_of_shards', 'number_of_replicas', 'number_of_routing_shards', 'routing_partition_size',
  'refresh_interval', 'translog', 'analysis', 'similarity', 'sort', 'codec', 'mapping', 'default_pipeline',
  'final_pipeline'];

// A node renews its own processor time at most once a second, and answers with the previous value until then.
const RENEWAL_MS = 1100;
// The part of a processor that an idle node may use, and the number of samples in which all nodes may become idle.
const QUIET = 0.05;
const QUIET_SAMPLES = 5;
// The time that a client waits after a failed request, so that it does not flood a server that refuses.
const PAUSE_MS = 100;
// The longest file. k6 needs about ten times as much memory.
const MOST_BYTES = 200000000;
// A delay that k6's timers may cause.
const LATE_MS = 10;
const TURNS = 2 * (ROUNDS + 1);
const LEAST_SECONDS = 2 * WARM_UP + 2 * ROUNDS * SECONDS + (TURNS * 2 * RENEWAL_MS) / 1000;
const MOST_SECONDS = LEAST_SECONDS + TURNS * (QUIET_SAMPLES + 3 * TIMEOUT) + 600;

// k6 keeps one copy of the file, and reads it once.
const bodies = new SharedArray('bodies', readBodies);

// Everything happens in the set-up, because its result is all that k6 passes to the summary.
export const options = {
  scenarios: { replay: { executor: 'shared-iterations', vus: 1, iterations: 1 } },
  setupTimeout: `${Math.ceil(MOST_SECONDS)}s`,
  // The number of connections that k6 keeps to an address.
  batch: CLIENTS,
  batchPerHost: CLIENTS,
  // k6 keeps the samples of all metrics until the end. Without tags there are fewer of them.
  systemTags: [],
};

export default function nothing() {}

export async function setup() {
  checkClusters();
  const plan = makePlan();
  plan.lines.forEach((line) => console.log(line));
  const requests = SIDES.map((side) => bodies.map((body) => rewrite(body, side)));
  SIDES.forEach((side) => prepareIndices(side, plan.indices));
  const turns = [];
  for (let round = 0; round <= ROUNDS; round++) {
    // Each side is the first one in every second round.
    const order = round % 2 === 0 ? [0, 1] : [1, 0];
    for (const place of order) {
      const turn = await take(round, SIDES[place], requests[place]);
      checkWarmUp(turn, SIDES[place]);
      turns.push(turn);
      console.log(progress(turn));
    }
  }
  return { turns: turns.filter(({ round }) => round > 0), written: plan.written };
}

export function handleSummary(data) {
  if (!data.setup_data) {
    return { stdout: '\nThe replay did not end; the error below says why.\n' };
  }
  const outputs = { stdout: `${report(data.setup_data)}\n` };
  if (RESULTS) {
    outputs[`${RESULTS}.json`] = JSON.stringify(data.setup_data, null, 2);
  }
  return outputs;
}

// ---- Recorded bodies ----

// Reads the bodies, which are separated by empty lines. The file may be large, so this makes no list of all lines.
function readBodies() {
  // k6 opens a relative path from the script's folder; users mean their own.
  const isAbsolute = /^([/\\]|[A-Za-z]:|file:)/.test(BODIES);
  const text = open(isAbsolute || !__ENV.PWD ? BODIES : `${__ENV.PWD}/${BODIES}`);
  if (text.length > MOST_BYTES) {
    stop(`BODIES: ${BODIES} has ${grouped(text.length)} bytes: give at most ${grouped(MOST_BYTES)}`);
  }
  const found = [];
  let body = newBody();
  for (let start = 0, number = 1; start < text.length; number++) {
    const newline = text.indexOf('\n', start);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(start, text[end - 1] === '\r' && end > start ? end - 1 : end);
    start = end + 1;
    if (line !== '') {
      addLine(body, line, number);
    }
    if (body.operations > 0 && (line === '' || start >= text.length)) {
      found.push(endBody(body, number));
      body = newBody();
    }
  }
  if (found.length === 0) {
    stop(`BODIES: ${BODIES} is empty: record bulk requests into it`);
  }
  return found;
}

function newBody() {
  return { lines: [], operations: 0, actions: {}, indices: {}, needsDocument: false };
}

function addLine(body, line, number) {
  body.lines.push(line);
  if (body.needsDocument) {
    body.needsDocument = false;
    return;
  }
  const { action, index } = readAction(line, number);
  body.operations += 1;
  body.actions[action] = (body.actions[action] || 0) + 1;
  body.indices[index] = (body.indices[index] || 0) + 1;
  body.needsDocument = action !== 'delete';
}

function endBody({ lines, operations, actions, indices, needsDocument }, number) {
  if (needsDocument) {
    stop(`the body that ends at line ${number} of BODIES has no document after its last action line: an empty line ` +
      'may only follow a whole body');
  }
  return { text: lines.join('\n'), operations, actions, indices };
}

function readAction(line, number) {
  const fields = parse(line) || {};
  const [action] = Object.keys(fields);
  if (!['index', 'create', 'update', 'delete'].includes(action)) {
    stop(`line ${number} of BODIES is not an action line: give a body as it was sent to _bulk, uncompressed`);
  }
  const index = (fields[action] || {})._index || indexOfPath();
  if (!index) {
    stop(`line ${number} of BODIES has no _index: name the index in BULK_PATH, as in BULK_PATH=/logs/_bulk`);
  }
  return { action, index };
}

// Returns the index in the path of the requests, if it has one.
function indexOfPath() {
  const [first] = BULK_PATH.replace(/^\//, '').split(/[/?]/);
  return first === '_bulk' ? undefined : decodeURIComponent(first);
}

// Returns a request's text with the index names of a side. The lines stay as they are otherwise: numbers may have more
// digits than JavaScript's.
function rewrite({ text, operations }, side) {
  const lines = text.split('\n');
  for (let place = 0; place < lines.length; place++) {
    const [, action] = /^\s*\{\s*"(\w+)"/.exec(lines[place]);
    lines[place] = lines[place].replace(/("_index"\s*:\s*")/, (field) => field + prefixOf(side));
    checkIndex(lines[place], action, side);
    if (action === 'create') {
      lines[place] = lines[place].replace(/"create"/, `"${CREATE}"`);
    }
    place += action === 'delete' ? 0 : 1;
  }
  return { text: `${lines.join('\n')}\n`, operations };
}

// Makes sure that no operation reaches a recorded index by a spelling that the replacement does not find.
function checkIndex(line, action, side) {
  const { _index: index } = (parse(line) || {})[action] || {};
  if (index && !index.startsWith(prefixOf(side))) {
    stop(`an action line has an unusual spelling of _index, to which PREFIX cannot be added: ${line.slice(0, 200)}`);
  }
}

function prefixOf(side) {
  return PREFIX === '' ? '' : `${PREFIX}${side.name}-`;
}

function pathOf(side) {
  return indexOfPath() ? BULK_PATH.replace(/^\/?/, `/${prefixOf(side)}`) : BULK_PATH;
}

// ---- What is written where ----

function makePlan() {
  const [indices, actions] = [{}, {}];
  for (const body of bodies) {
    addAll(indices, body.indices);
    addAll(actions, body.actions);
  }
  const names = Object.keys(indices);
  const written = {};
  const lines = [`${grouped(bodies.length)} bodies with ${grouped(sum(Object.values(indices)))} operations: ` +
    Object.keys(actions).map((action) => `${grouped(actions[action])} ${action}`).join(', ')];
  for (const side of SIDES) {
    written[side.name] = names.map((name) => prefixOf(side) + name);
    const extent = names.map((name) => `${prefixOf(side)}${name} (operations in each pass: ${grouped(indices[name])})`);
    lines.push(`${side.parameter}, ${shown(side.addresses)}, gets POST ${pathOf(side)}, which writes to ` +
      extent.join(', '));
  }
  lines.push(PREFIX === ''
    ? 'PREFIX is empty: these are the recorded names, and the replay OVERWRITES what these indices have'
    : `no other index is written; each of these is replaced if an earlier replay made it (PREFIX=${PREFIX})`);
  lines.push(`the node statistics come from ${shown([STATS])}`);
  lines.push(extentOfLoad());
  if (actions.create && CREATE === 'create') {
    lines.push('a create of an id fails with 409 from its second time on, and counts as an error; CREATE=index ' +
      'writes these documents again');
  }
  return { indices: names, written, lines };
}

function extentOfLoad() {
  const seconds = 2 * WARM_UP + 2 * ROUNDS * SECONDS;
  const most = 2 * limitOf(WARM_UP) + 2 * ROUNDS * limitOf(SECONDS);
  return `${CLIENTS} clients send for ${seconds} s: two turns of ${WARM_UP} s to warm up, then ${2 * ROUNDS} turns ` +
    `of ${SECONDS} s, ${SPEED}; at most ${grouped(most)} requests; the pauses between turns take ` +
    `${Math.ceil((TURNS * 2 * RENEWAL_MS) / 1000)} s or more`;
}

// Returns the most requests of a turn.
function limitOf(seconds) {
  return RATE ? Math.min(REQUESTS, RATE * seconds) : REQUESTS;
}

// Makes a side's indices, empty, and like those with the recorded names if these exist.
function prepareIndices(side, names) {
  if (PREFIX === '') {
    return;
  }
  for (const name of names) {
    const copy = `/${encodeURIComponent(prefixOf(side) + name)}`;
    const like = ask(SIDES[0].addresses[0], 'GET', `/${encodeURIComponent(name)}`, null, [200, 404]);
    removeCopy(copy);
    const made = like.status === 200 ? copyOf(like.json()) : { mappings: {} };
    made.mappings._meta = { made_by: MAKER };
    ask(SIDES[0].addresses[0], 'PUT', copy, made);
  }
}

function removeCopy(copy) {
  const found = ask(SIDES[0].addresses[0], 'GET', `${copy}/_mapping`, null, [200, 404]);
  if (found.status === 404) {
    return;
  }
  const makers = Object.values(found.json()).map(({ mappings }) => (mappings._meta || {}).made_by);
  if (makers.length !== 1 || makers[0] !== MAKER) {
    stop(`there is an index or alias ${decodeURIComponent(copy.slice(1))} that no replay made: ` +
      'give PREFIX another value');
  }
  ask(SIDES[0].addresses[0], 'DELETE', copy);
}

// Returns what makes an index like the newest of these.
function copyOf(found) {
  const { settings, mappings } = found[Object.keys(found).sort().pop()];
  const index = {};
  COPIED.filter((name) => settings.index[name] !== undefined).forEach((name) => {
    index[name] = settings.index[name];
  });
  // A data stream's index has a field that no other index may have.
  const own = Object.assign({}, mappings);
  delete own._data_stream_timestamp;
  return { settings: { index }, mappings: own };
}

// ---- Turns ----

// Sends a side's requests for a while. Returns what the clients and the nodes have counted.
async function take(round, side, requests) {
  const seconds = round === 0 ? WARM_UP : SECONDS;
  const { before, idle, isQuiet } = await settle();
  const turn = { round, side: side.name, requests: 0, documents: 0, failed: 0, late: 0, latencies: [], errors: {} };
  const load = { turn, side, requests, limit: limitOf(seconds), next: 0, started: Date.now() };
  load.end = load.started + 1000 * seconds;
  await Promise.all(Array.from({ length: CLIENTS }, (_, client) => sendUntilDone(load, client)));
  turn.seconds = (Date.now() - load.started) / 1000;
  await until(before.time + RENEWAL_MS);
  const after = readNodes();
  const latencies = turn.latencies.sort((one, other) => one - other);
  delete turn.latencies;
  return Object.assign(turn, {
    isQuiet,
    idle,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    waited: sum(latencies) / (CLIENTS * turn.seconds * 1000),
    cpuSeconds: (after.cpu - before.cpu) / 1000,
    bytesBetweenNodes: after.received - before.received,
  });
}

async function sendUntilDone(load, client) {
  const url = load.side.addresses[client % load.side.addresses.length] + pathOf(load.side);
  const parameters = { headers: headers('application/x-ndjson'), timeout: `${TIMEOUT}s` };
  while (load.next < load.limit) {
    const number = load.next;
    const due = RATE ? load.started + (1000 * number) / RATE : Date.now();
    if (Math.max(due, Date.now()) >= load.end) {
      return;
    }
    load.next += 1;
    await until(due);
    const late = Math.max(Date.now() - due, 0);
    const request = load.requests[number % load.requests.length];
    const answer = await http.asyncRequest('POST', url, request.text, parameters);
    count(load.turn, request, answer, late);
    if (answer.status !== 200) {
      await until(Date.now() + PAUSE_MS);
    }
  }
}

// Counts an answer. A request that was sent late has waited for a client, which is part of its time.
function count(turn, request, answer, late) {
  turn.requests += 1;
  turn.late += RATE && late > Math.max(1000 / RATE, LATE_MS) ? 1 : 0;
  turn.latencies.push(answer.timings.duration + (RATE ? late : 0));
  const failures = failuresOf(request, answer);
  const failed = sum(Object.values(failures));
  turn.failed += failed;
  turn.documents += request.operations - failed;
  addAll(turn.errors, failures);
}

// Returns the number of failed operations of each kind.
function failuresOf({ operations }, { status, body, error_code: code }) {
  if (status !== 200) {
    return { [status === 0 ? `no answer (k6 error ${code})` : `status ${status} of a whole request`]: operations };
  }
  // Most answers say here that nothing failed. To read all of an answer takes longer than to send the request.
  if (/"errors"\s*:\s*false/.test(String(body).slice(0, 200))) {
    return {};
  }
  const answer = parse(body);
  if (!answer || typeof answer.errors !== 'boolean') {
    return { 'an answer that is not one of _bulk': operations };
  }
  const failures = {};
  for (const item of answer.errors ? answer.items || [] : []) {
    const [action] = Object.keys(item);
    const { status: itemStatus, error } = item[action] || {};
    if (error || (itemStatus >= 400 && action !== 'delete')) {
      const kind = `${itemStatus || 'item'} ${(error || {}).type || 'of an unknown type'}`;
      failures[kind] = (failures[kind] || 0) + 1;
    }
  }
  const isHidden = answer.errors && Object.keys(failures).length === 0;
  return isHidden ? { 'items that filter_path leaves out': operations } : failures;
}

function checkWarmUp({ round, documents, errors }, side) {
  if (round === 0 && documents === 0) {
    stop(`${side.parameter}, ${shown(side.addresses)}, has written no document: ${listed(errors)}`);
  }
}

// ---- Nodes ----

// Waits until the nodes are nearly idle: merges and refreshes of one turn must not count for the next. In a cluster
// with other work that may never happen, so the wait is short. Returns the last reading, and the processors in use.
async function settle() {
  let before = readNodes();
  for (let sample = 1; ; sample++) {
    await until(before.time + RENEWAL_MS);
    const after = readNodes();
    const idle = (after.cpu - before.cpu) / (after.time - before.time);
    const isQuiet = idle < QUIET * after.ids.length;
    if (isQuiet || sample >= QUIET_SAMPLES) {
      return { before: after, idle, isQuiet };
    }
    before = after;
  }
}

// Returns the processor time of all nodes in milliseconds, and the bytes that they have received from each other.
function readNodes(address = STATS) {
  const path = '/_nodes/stats/process,transport';
  const time = Date.now();
  const nodes = ask(address, 'GET', path).json('nodes') || {};
  const ids = Object.keys(nodes).sort();
  const total = (read) => sum(ids.map((id) => read(nodes[id])));
  try {
    return { time, ids, cpu: total((node) => node.process.cpu.total_in_millis),
      received: total((node) => node.transport.rx_size_in_bytes) };
  } catch (_) {
    stop(`GET ${shown([address])}${path} has no figures of processes and transport: ` +
      'give STATS the address of a node');
  }
}

// Checks that all addresses lead to one cluster.
function checkClusters() {
  const { ids } = readNodes();
  for (const { parameter, addresses: all } of SIDES) {
    for (const address of all) {
      if (!readNodes(address).ids.some((id) => ids.includes(id))) {
        stop(`${parameter}, ${shown([address])}, leads to another cluster than STATS, ${shown([STATS])}`);
      }
    }
  }
}

// Sends a request that is not measured. An answer with a status other than these ends the run.
function ask(address, method, path, body = null, statuses = [200]) {
  const parameters = { headers: headers('application/json'), timeout: `${TIMEOUT}s` };
  const answer = http.request(method, address + path, body && JSON.stringify(body), parameters);
  if (!statuses.includes(answer.status)) {
    const happened = answer.status === 0 ? `no answer (${answer.error})` : `status ${answer.status}`;
    const advice = [401, 403].includes(answer.status) ? ': set AUTHORIZATION to the value of the header' : '';
    stop(`${method} ${shown([address])}${path}: ${happened}${advice}. ${String(answer.body || '').slice(0, 300)}`);
  }
  return answer;
}

function headers(contentType) {
  const always = { 'content-type': contentType };
  return AUTHORIZATION ? Object.assign(always, { authorization: AUTHORIZATION }) : always;
}

// ---- Report ----

// The figures of the table, from a turn.
const FIGURES = {
  'docs/s': ({ documents, seconds }) => documents / seconds,
  'p50, ms': ({ p50 }) => p50,
  'p99, ms': ({ p99 }) => p99,
  'cluster CPU per document, µs': ({ cpuSeconds, documents }) => (1e6 * cpuSeconds) / documents,
  'bytes between nodes per document': ({ bytesBetweenNodes, documents }) => bytesBetweenNodes / documents,
};

function report({ turns, written }) {
  const of = (side) => turns.filter((turn) => turn.side === side).sort((one, other) => one.round - other.round);
  const [direct, filter] = [of('direct'), of('filter')];
  const rows = Object.keys(FIGURES).map((figure) => {
    const read = FIGURES[figure];
    const ratios = filter.map((turn, place) => read(turn) / read(direct[place]));
    return [figure, spread(direct.map(read)), spread(filter.map(read)), spread(ratios)];
  });
  return [
    '',
    `ROUNDS=${ROUNDS}: medians (and extremes), ${CLIENTS} clients, ${SPEED}`,
    '',
    ...table(['figure', 'direct', 'filter', 'filter ÷ direct'], rows),
    '',
    ...SIDES.map(({ name }) => outcome(name, of(name))),
    ...doubts(turns),
    PREFIX === '' ? '' : `The indices stay until the next replay: ${[...written.direct, ...written.filter].join(', ')}`,
  ].join('\n');
}

// Returns what a side has answered, with its errors.
function outcome(name, turns) {
  const total = (field) => sum(turns.map((turn) => turn[field]));
  const errors = {};
  turns.forEach((turn) => addAll(errors, turn.errors));
  return `${name}: ${grouped(total('requests'))} requests, ${grouped(total('documents'))} documents, ` +
    `errors: ${listed(errors)}`;
}

// Returns the reasons why the figures may mislead.
function doubts(turns) {
  const busy = turns.filter(({ isQuiet }) => !isQuiet);
  const short = turns.filter(({ requests }) => requests < 100);
  const late = sum(turns.map((turn) => turn.late)) / sum(turns.map(({ requests }) => requests));
  const full = turns.filter(({ requests }) => requests >= REQUESTS);
  const waited = quantile(turns.map((turn) => turn.waited).sort((one, other) => one - other), 0.5);
  return [
    busy.length > 0 && `The nodes were not idle before ${busy.length} of ${turns.length} turns: other work used ` +
      `${spread(busy.map(({ idle }) => idle))} processors, which the figures include.`,
    short.length > 0 && `${short.length} of ${turns.length} turns had fewer than 100 requests, so that p99 is their ` +
      'slowest one: give more SECONDS.',
    RATE && late > 0.01 && `${(100 * late).toFixed(0)} % of the requests were sent late: give more CLIENTS, or a ` +
      'lower RATE.',
    full.length > 0 && `${full.length} of ${turns.length} turns ended at REQUESTS=${REQUESTS}.`,
    !RATE && waited < 0.7 && `The clients waited for answers ${(100 * waited).toFixed(0)} % of the time: k6 itself ` +
      'limits docs/s, so compare the other figures.',
  ].filter(Boolean);
}

function progress(turn) {
  const round = turn.round === 0 ? 'warm-up' : `round ${turn.round}`;
  const docs = number3(FIGURES['docs/s'](turn));
  return `${round}, ${turn.side}: ${docs} docs/s, p50 ${number3(turn.p50)} ms, p99 ${number3(turn.p99)} ms` +
    `, errors: ${listed(turn.errors)}`;
}

function listed(errors) {
  const kinds = Object.keys(errors).map((kind) => `${grouped(errors[kind])} × ${kind}`);
  return kinds.join(', ') || 'none';
}

// Returns the lines of a Markdown table.
function table(header, rows) {
  const width = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column].length)));
  const line = (cells) => `| ${cells.map((cell, column) => cell.padEnd(width[column])).join(' | ')} |`;
  return [line(header), line(width.map((length) => '-'.repeat(length))), ...rows.map(line)];
}

// Formats the median and the extremes of some values, as 4.1 (3.9–4.4).
function spread(values) {
  const sorted = values.filter(Number.isFinite).sort((one, other) => one - other);
  if (sorted.length === 0) {
    return '-';
  }
  const half = sorted.length / 2;
  const median = (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
  const [least, most] = [sorted[0], sorted[sorted.length - 1]].map(number3);
  return number3(median) + (least === most ? '' : ` (${least}–${most})`);
}

// Formats a number with about three digits.
function number3(value) {
  if (!Number.isFinite(value)) {
    return '-';
  }
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 || value === 0 ? 2 : 4;
  return digits === 0 ? grouped(Math.round(value)) : value.toFixed(digits);
}

// Formats 1234567 as 1,234,567.
function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

// Returns addresses for a message, without user names and passwords.
function shown(all) {
  return all.map((address) => address.replace(/\/\/[^@/]*@/, '//…@')).join(', ');
}

// ---- Parameters ----

function required(name, meaning) {
  if (!__ENV[name]) {
    stop(`${name} is missing: give ${meaning}, as in k6 run -e BODIES=bodies.ndjson ` +
      '-e DIRECT=http://node:9200 -e FILTER=http://envoy:9200 replay.js');
  }
  return __ENV[name];
}

function addresses(name, meaning) {
  return required(name, `the address ${meaning}`).split(',').map((text) => {
    const address = text.trim().replace(/\/$/, '');
    if (!/^https?:\/\/[^/?#]+/.test(address)) {
      stop(`${name} has ${shown([address])}, which is not an address: begin it with http:// or https://`);
    }
    return address;
  });
}

function number(name, preset, least, most) {
  const value = __ENV[name] || String(preset);
  if (!/^\d+$/.test(value) || Number(value) < least || Number(value) > most) {
    stop(`${name} has ${value}: give a whole number from ${least} to ${most}`);
  }
  return Number(value);
}

function oneOf(name, words) {
  const value = __ENV[name] || words[0];
  if (!words.includes(value)) {
    stop(`${name} has ${value}: give ${words.join(' or ')}`);
  }
  return value;
}

// Returns the path with a filter_path for what this script reads, unless it has its own.
function withFilterPath(path) {
  const own = /[?&]filter_path=([^&]*)/.exec(path);
  if (!own) {
    return `${path}${path.includes('?') ? '&' : '?'}filter_path=errors,items.*.error.type,items.*.status`;
  }
  if (!decodeURIComponent(own[1]).split(',').includes('errors')) {
    stop('BULK_PATH has a filter_path without errors, by which this script counts failures: add it');
  }
  return path;
}

// ---- Small helpers ----

// Ends the run with a message, and makes k6 fail.
function stop(message) {
  exec.test.abort(message);
}

function until(time) {
  const left = time - Date.now();
  return left > 0 ? new Promise((resolve) => { setTimeout(resolve, left); }) : Promise.resolve();
}

// Returns a quantile of ascending values.
function quantile(ascending, part) {
  return ascending[Math.max(Math.ceil(part * ascending.length) - 1, 0)];
}

// Adds numbers by name to others.
function addAll(to, numbers) {
  Object.keys(numbers).forEach((name) => { to[name] = (to[name] || 0) + numbers[name]; });
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (_) {
    return undefined;
  }
}
