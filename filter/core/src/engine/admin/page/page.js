'use strict';
// Polls the filter's status every two seconds, and shows it. Rates and averages are the growth of counters between two
// kept answers, so they need only the counters.

const PERIOD = 2000; // milliseconds
const WINDOW = 5; // answers that a rate covers
const HISTORY = 90; // points of the small charts
const AT_FIRST = 15; // points that fill a small chart's width at first

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const show = (value) => (value === null ? '–' : (Math.abs(value) < 100 ? fine : number).format(value));

const some = (count, one, many) => `${show(count)} ${count === 1 ? one : many}`;

function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${show(value)} ${units[unit]}`;
}

function duration(milliseconds) {
  if (milliseconds === null) return '–';
  if (milliseconds < 1000) return `${fine.format(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 120) return `${fine.format(seconds)} s`;
  return seconds < 7200 ? `${number.format(seconds / 60)} min` : `${number.format(seconds / 3600)} h`;
}

// Returns an element with attributes and content: texts and other elements.
function element(name, attributes = {}, ...content) {
  const svg = ['svg', 'rect', 'polyline'].includes(name);
  const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

function bar(share, kind) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  const rect = element('rect', { width, height: 10 });
  return element('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true', class: kind }, rect);
}

function line(values) {
  const most = Math.max(1, ...values);
  // The newest point is at the right edge.
  const steps = Math.max(values.length, AT_FIRST) - 1;
  const at = (place) => 100 - ((values.length - 1 - place) * 100) / steps;
  const point = (value, place) => `${at(place)},${19 - (value / most) * 18}`;
  const points = values.map(point).join(' ');
  return element(
    'svg', { viewBox: '0 0 100 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, element('polyline', { points }),
  );
}

const kept = []; // answers, the newest last
const history = new Map(); // values of the small charts, by title

// Returns the sum of a value over all upstreams.
const sum = (status, key) => upstreams(status).reduce((total, one) => total + one[key], 0);
const upstreams = (status) => {
  const all = [status.coordinator, ...status.nodes.filter((node) => node.upstream !== null)];
  return [...new Map(all.map((one) => [one.upstream, one])).values()];
};

// Returns functions for rates per second and means, between the oldest and the newest kept answer. They return null if
// there is only one answer.
function rates() {
  const last = kept[kept.length - 1];
  const first = kept[Math.max(0, kept.length - 1 - WINDOW)];
  const seconds = (last.unix_milliseconds - first.unix_milliseconds) / 1000;
  const growth = (of) => (seconds > 0 ? Math.max(0, of(last) - of(first)) : null);
  const rate = (of) => {
    const grown = growth(of);
    return grown === null ? null : grown / seconds;
  };
  const mean = (of, by) => {
    const [grown, times] = [growth(of), growth(by)];
    return grown === null || times === 0 ? null : grown / times;
  };
  return { last, rate, mean };
}

function tiles({ last, rate, mean }) {
  const merged = rate((status) => status.totals.requests_merged);
  const passed = rate((status) => status.totals.requests_passed_through);
  const all = merged === null ? null : merged + passed;
  const batches = (key) => (status) => sum(status, key);
  const operations = rate(batches('batch_operations'));
  const coordinated = rate((status) => status.coordinator.batch_operations);
  return [
    ['Bulk requests per second', show(all), 'from all clients', all],
    ['Split requests', all ? `${show((100 * merged) / all)} %` : '–', 'the others pass through', all ? merged / all : null],
    ['Operations per second', show(operations), 'of split requests', operations],
    ['Routed to their node', operations ? `${show(100 * (1 - coordinated / operations))} %` : '–', 'the others go to the coordinator', operations ? 1 - coordinated / operations : null],
    ['Requests per batch', show(mean(batches('batch_requests'), batches('batches'))), 'mean', mean(batches('batch_requests'), batches('batches'))],
    ['Held for', duration(perBatch(mean, batches, 'hold_microseconds')), 'first request of a batch', perBatch(mean, batches, 'hold_microseconds')],
    ['Answered in', duration(perBatch(mean, batches, 'upstream_microseconds')), 'by the node', perBatch(mean, batches, 'upstream_microseconds')],
    ['Memory of requests', bytes(last.totals.memory_bytes), `of ${bytes(last.totals.memory_limit_bytes)}`, last.totals.memory_bytes],
  ];
}

function perBatch(mean, batches, key) {
  const micros = mean(batches(key), batches('batches'));
  return micros === null ? null : micros / 1000;
}

function showTiles(now) {
  byId('tiles').replaceChildren(...tiles(now).map(([title, value, hint, plotted]) => {
    const values = history.get(title) ?? [];
    // A chart begins with the first known value.
    if (plotted !== null || values.length > 0) values.push(plotted ?? 0);
    history.set(title, values.slice(-HISTORY));
    return element(
      'div', { class: 'tile' },
      element('span', {}, title), element('b', {}, value), element('small', {}, hint), line(values.slice(-HISTORY)),
    );
  }));
}

function health(one) {
  const { last_batch: last, failure, age_milliseconds: age } = one.health;
  if (last === 'failed') return element('small', { class: 'bad' }, `failed ${duration(age)} ago: ${failure}`);
  if (last === 'answered') return element('small', { class: 'good' }, `answered ${duration(age)} ago`);
  return element('small', {}, 'nothing sent by this worker');
}

// Returns what is wrong with an upstream, for people.
function fault({ check, upstream }) {
  if (!check || check.result === 'right') return null;
  return check.found === undefined ? check.text : `${check.text} ${check.found} answers at ${upstream}.`;
}

function row(name, find, most, { last, rate, mean }) {
  const one = find(last);
  const head = element('th', { scope: 'row' }, name);
  if (one.upstream === null) {
    head.append(element('small', { class: 'bad' }, `no upstream (${one.without_upstream}): uses the coordinator`));
    return element('tr', {}, head, ...Array.from({ length: 8 }, () => element('td', {}, '–')));
  }
  if (!name.startsWith(one.upstream)) head.append(element('small', {}, `upstream ${one.upstream}`));
  head.append(health(one));
  if (fault(one)) head.append(element('small', { class: 'bad' }, fault(one)));
  if (one.without_upstream) head.append(element('small', { class: 'bad' }, 'its operations go to the coordinator'));
  const of = (key) => (status) => (find(status) ?? one)[key] ?? 0;
  const average = (key) => mean(of(key), of('batches'));
  const millis = (key) => duration(average(key) === null ? null : average(key) / 1000);
  const cells = [
    ['Held', `${show(one.held_operations)} ops`, `${some(one.held_requests, 'request', 'requests')}, ${bytes(one.held_bytes)}`, bar(one.held_operations / most, 'held')],
    ['In flight', `${show(one.in_flight_operations)} ops`, `${some(one.in_flight_batches, 'batch', 'batches')}${one.slots ? ` of at most ${one.slots}` : ''}, ${bytes(one.in_flight_bytes)}`, bar(one.in_flight_operations / most, '')],
    ['Batches/s', show(rate(of('batches')))],
    ['Operations/s', show(rate(of('batch_operations')))],
    ['Requests per batch', show(average('batch_requests'))],
    ['Operations per batch', show(average('batch_operations')), average('batch_bytes') === null ? '' : bytes(average('batch_bytes'))],
    ['Held for', millis('hold_microseconds')],
    ['Answered in', millis('upstream_microseconds')],
  ];
  return element('tr', {}, head, ...cells.map(([title, value, hint, chart]) => {
    const cell = element('td', { 'data-title': title }, value);
    if (hint) cell.append(element('small', {}, hint));
    if (chart) cell.append(chart);
    return cell;
  }));
}

function showNodes(now) {
  const { last } = now;
  const busy = (one) => Math.max(one.held_operations ?? 0, one.in_flight_operations ?? 0);
  const most = Math.max(1, busy(last.coordinator), ...last.nodes.map(busy));
  const nodes = last.nodes.map((node) => row(node.name, (status) => status.nodes.find(({ id }) => id === node.id), most, now));
  const coordinator = row(`${last.coordinator.upstream} (coordinator)`, (status) => status.coordinator, most, now);
  document.querySelector('#nodes tbody').replaceChildren(...nodes, coordinator);
  byId('left-out').textContent = last.nodes_left_out > 0 ? `and ${last.nodes_left_out} more` : '';
}

function showReasons(id, reasons, total, texts) {
  const sorted = Object.entries(reasons).sort(([, one], [, other]) => other - one);
  byId(id).hidden = sorted.length === 0;
  byId(`${id}-none`).hidden = sorted.length > 0;
  document.querySelector(`#${id} tbody`).replaceChildren(...sorted.map(([reason, count]) => {
    const share = total > 0 ? count / total : 0;
    return element('tr', {}, element('th', { scope: 'row' }, reason, element('small', {}, texts[reason] ?? '')), element('td', {}, show(count)), element('td', {}, `${show(100 * share)} %`, bar(share, '')));
  }));
}

// Returns the rows about observed requests: the figure, today, and with the filter.
function comparison({ last, rate, mean }) {
  const { observed } = last.totals;
  const of = (key) => (status) => status.totals.observed[key];
  const batches = (key) => (status) => sum(status, key);
  const [merged, passed] = [rate(of('merged')), rate(of('passed_through'))];
  const sent = rate(batches('observed_batches'));
  const between = (key) => mean(of(key), of('bytes_located'));
  const percent = (share) => (share === null ? '–' : `${show(100 * share)} %`);
  const perSecond = (value) => (value === null ? '–' : bytes(value));
  const [located, astray] = [rate(of('bytes_located')), between('bytes_between_nodes')];
  const rows = [
    ['Requests to nodes, per second', show(sent === null ? null : merged + passed), show(sent === null ? null : sent + passed)],
    ['Requests of clients in each', '1', show(mean(batches('observed_batch_requests'), batches('observed_batches')))],
    ['Bytes that arrive at their node', percent(astray === null ? null : 1 - astray), located ? '100 %' : '–'],
    ['Bytes between nodes, per second', perSecond(rate(of('bytes_between_nodes'))), located === null ? '–' : bytes(0)],
  ];
  if (observed.bytes_between_zones === 0 && observed.bytes_to_other_zones === 0) return rows;
  const zones = ['bytes_between_zones', 'bytes_to_other_zones'].map((key) => rate(of(key)));
  rows.push(['Bytes between zones, per second', ...zones.map(perSecond)]);
  rows.push(['Cost between zones, in 30 days', ...zones.map(cost)]);
  return rows;
}

// Returns the cost of so many bytes per second, at the price that the operator has typed in.
function cost(rate) {
  const price = Number(byId('price').value);
  return rate === null ? '–' : show((rate * 30 * 24 * 3600 * price) / 1e9);
}

function showObserved(now) {
  const { last } = now;
  const { observed, reasons } = last.totals;
  const requests = observed.merged + observed.passed_through;
  byId('observed-section').hidden = requests === 0;
  if (requests === 0) return;
  document.querySelector('#observed tbody').replaceChildren(...comparison(now).map(([name, today, then]) => element(
    'tr', {}, element('th', { scope: 'row' }, name),
    element('td', { 'data-title': 'Today' }, today), element('td', { 'data-title': 'With the filter' }, then),
  )));
  const hints = ['Copies of documents on replicas are not included.'];
  if (observed.bytes_unlocated > 0) {
    const share = observed.bytes_unlocated / (observed.bytes_located + observed.bytes_unlocated);
    hints.push(`Of ${show(100 * share)} % of the bytes, the node of the primary or the node that answered is not known. They are not included either.`);
  }
  const hasZones = observed.bytes_between_zones > 0 || observed.bytes_to_other_zones > 0;
  byId('price-line').hidden = !hasZones;
  if (hasZones && observed.zone === null) hints.push('The zone of this Envoy is not known, so its way to the first node is not included. Set node.locality.zone.');
  byId('observed-hint').textContent = hints.join(' ');
  showReasons('observed-passed', observed.passed_through_by_reason, requests, reasons);
  const operations = Object.fromEntries(upstreams(last).filter((one) => one.observed_batch_operations > 0)
    .map((one) => [one === last.coordinator ? `${one.upstream} (coordinator)` : one.upstream, one.observed_batch_operations]));
  const all = Object.values(operations).reduce((total, one) => total + one, 0);
  showReasons('observed-unrouted', observed.unrouted_by_reason, all, reasons);
  showReasons('observed-nodes', operations, all, {});
}

const sumOf = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
const listOf = (counts) => Object.entries(counts).sort(([, one], [, other]) => other - one)
  .map(([name, count]) => `${name} ${show(count)}`).join(', ');
const failed = (one) => sumOf(one.failed_by_type);
const passedThrough = (one) => sumOf(one.passed_through_by_reason);

// The orders of the writers: the larger the value, the nearer to the top.
const ORDERS = [
  ['most requests', (one) => one.requests],
  ['fewest operations per request', (one) => (one.operations > 0 ? -one.operations / one.requests : -Number.MAX_VALUE)],
  ['most bytes', (one) => one.bytes],
  ['most bytes per request', (one) => one.bytes / one.requests],
  ['most refused requests', (one) => one.refused],
  ['most failed operations', failed],
  ['most requests that would pass through', passedThrough],
];
byId('writers-by').append(...ORDERS.map(([name], place) => element('option', { value: place }, name)));

function showWriters({ last }) {
  const { writers, other_writers: others, worker } = last;
  byId('writers-section').hidden = writers.length === 0;
  const value = ORDERS[Number(byId('writers-by').value)][1];
  const sorted = writers.slice().sort((one, other) => value(other) - value(one)).slice(0, 10);
  document.querySelector('#writers tbody').replaceChildren(...sorted.map((one) => {
    const writer = element('th', { scope: 'row' }, one.user ?? 'without a user', element('small', {}, one.agent ?? ''));
    const cells = [
      one.index ?? '–', show(one.requests), show(one.operations), show(one.operations / one.requests),
      bytes(one.bytes / one.requests), show(one.refused),
    ].map((text) => element('td', {}, text));
    const counts = [one.failed_by_type, one.passed_through_by_reason]
      .map((counts) => element('td', {}, show(sumOf(counts)), element('small', {}, listOf(counts))));
    return element('tr', {}, writer, ...cells, ...counts);
  }));
  const hints = [`Observed requests of the worker that answers this page, in ${duration(worker.uptime_milliseconds)}.`];
  const unread = writers.reduce((total, one) => total + one.unread_answers, others.unread_answers);
  if (unread > 0) hints.push(`Of ${show(unread)} answers, the failures are not known.`);
  if (others.requests > 0) hints.push(`Others sent ${show(others.requests)} requests with ${show(others.operations)} operations.`);
  byId('writers-hint').textContent = hints.join(' ');
}

function showPipelines({ last }) {
  const { pipelines, pipelines_left_out: leftOut } = last;
  byId('pipelines-section').hidden = pipelines.length === 0;
  document.querySelector('#pipelines tbody').replaceChildren(...pipelines.map(({ name, harmless, because }) => {
    const verdict = harmless ? 'stay as they are' : `may change: ${because}`;
    return element('tr', {}, element('th', { scope: 'row' }, name), element('td', { 'data-title': 'Index, id and routing value' }, verdict));
  }));
  byId('pipelines-left-out').textContent = leftOut > 0 ? `and ${leftOut} more` : '';
}

function showFacts({ last }) {
  const { state, totals, worker } = last;
  const facts = [
    ['State version', state ? number.format(state.version) : 'not known yet'],
    ['Last verified', state ? `${duration(state.age_milliseconds)} ago` : '–'],
    ['States read / taken over / failed', `${show(totals.state_loads)} / ${show(totals.state_takeovers)} / ${show(totals.state_errors)}`],
    ['Peak memory of one worker', bytes(totals.memory_peak_bytes)],
    ['Largest VM', bytes(totals.vm_memory_peak_bytes)],
    ['Retried batches: busy / connection lost', `${show(sum(last, 'batches_retried_busy'))} / ${show(sum(last, 'batches_retried_lost'))}`],
    ['Batches redirected to the coordinator', show(sum(last, 'batches_redirected'))],
    ['Batches separated after a refusal', show(sum(last, 'batches_separated'))],
    ['Operations with an unknown outcome', show(sum(last, 'operations_unknown'))],
    ['Abandoned requests', show(totals.requests_abandoned)],
    ['Uptime of this worker', duration(worker.uptime_milliseconds)],
  ];
  byId('facts').replaceChildren(...facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
  byId('configuration').textContent = JSON.stringify(last.configuration, null, 2);
  byId('version').textContent = `${last.build.version} · ${last.build.commit.slice(0, 12)}`;
}

function showNotices({ last }) {
  const { state, state_problem: problem, totals, configuration } = last;
  const notices = last.ignored_switches.slice();
  if (last.ignored_switches_left_out > 0) notices.push(`${last.ignored_switches_left_out} more settings are ignored.`);
  if (!configuration.enabled) notices.push('The filter is switched off: all requests pass through.');
  if (configuration.enabled === 'observe') notices.push('The filter only observes: all requests pass through.');
  if (!state) notices.push(`The cluster state is not known yet, so all requests pass through.${problem ? '' : ' The filter is asking for it.'}`);
  if (problem) notices.push(`The last poll of the cluster state at ${last.configuration.cluster_state.upstream || last.coordinator.upstream} failed: ${problem}.`);
  for (const one of upstreams(last).filter((one) => one !== last.coordinator && fault(one))) {
    notices.push(`Upstream ${one.upstream}: ${fault(one)}`);
  }
  if (state && state.stale) {
    notices.push(`The cluster state was last verified ${duration(state.age_milliseconds)} ago. The polls fail, so all requests pass through.`);
  } else if (state && state.age_milliseconds > 10 * state.refresh_milliseconds) {
    notices.push(`The cluster state was last verified ${duration(state.age_milliseconds)} ago. The polls fail.`);
  }
  if (totals.memory_limit_bytes > 0 && totals.memory_bytes > 0.8 * totals.memory_limit_bytes) {
    notices.push('Memory is almost exhausted: more requests will pass through.');
  }
  const lost = last.nodes.filter((node) => node.upstream === null).map(({ name }) => name);
  if (lost.length > 0) notices.push(`Nodes without an upstream: ${lost.join(', ')}.`);
  const texts = [...byId('notices').children].map((item) => item.textContent);
  // Unchanged notices stay in place, so that screen readers do not repeat them.
  if (JSON.stringify(texts) !== JSON.stringify(notices)) {
    byId('notices').replaceChildren(...notices.map((notice) => element('li', {}, notice)));
  }
}

function connection(text, lost) {
  byId('connection').textContent = text;
  byId('connection').className = lost ? 'lost' : '';
}

async function refresh() {
  try {
    const answer = await fetch('status', { cache: 'no-store', signal: AbortSignal.timeout(5 * PERIOD) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    kept.push(await answer.json());
    kept.splice(0, kept.length - 1 - WINDOW);
  } catch (error) {
    connection(`No answer from the filter: ${error.message}`, true);
    return;
  }
  const now = rates();
  showTiles(now);
  showNodes(now);
  showReasons('passed', now.last.totals.passed_through_by_reason, now.last.totals.requests_passed_through, now.last.totals.reasons);
  showReasons('unrouted', now.last.totals.unrouted_by_reason, now.last.totals.operations_unrouted, now.last.totals.reasons);
  showObserved(now);
  showWriters(now);
  showPipelines(now);
  showFacts(now);
  showNotices(now);
  connection(`Refreshed every ${PERIOD / 1000} s`, false);
}

let paused = false;
byId('pause').addEventListener('click', () => {
  paused = !paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  if (paused) connection('Paused', false);
});

async function run() {
  for (;;) {
    // A page in the background does not poll.
    if (!paused && !document.hidden) await refresh();
    await new Promise((resolve) => { setTimeout(resolve, PERIOD); });
  }
}
run();
