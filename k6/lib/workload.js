// The common part of all scripts: makes the indices, warms up, counts at the end, and reports.

import { WARM_UP_PHASE } from './bulk-request.js';
import { accountFor, thresholds } from './metrics.js';
import { countDocuments, indexName, introduce, makeIndex, removeIndex, settings } from './index.js';
import { number, text } from './parameters.js';
import { documentId, writeDocuments } from './phase.js';
import { mapping, record } from './record.js';
import { summarize } from './summary.js';
import { addresses, ask } from './target.js';

const WARM_UP = number('WARM_UP', 200000, 0);
const WARM_UP_REQUEST = 1000;

export class Workload {
  // `indices` are arguments of makeIndex(). `phases` are in order, each with its `name` and, if it is known, the number
  // of its `operations`. `scenario` is k6's, without its limits.
  constructor({ script, indices, phases, scenario }) {
    Object.assign(this, { script, indices, phases });
    const time = text('MAX_DURATION', '1h');
    // The other executors have a duration of their own.
    const limits = scenario.iterations ? { maxDuration: time } : {};
    this.options = {
      scenarios: { [script]: Object.assign({ gracefulStop: '60s' }, limits, scenario) },
      thresholds: thresholds(phases, this.names()),
      summaryTrendStats: ['count', 'avg', 'min', 'med', 'p(95)', 'p(99)', 'max'],
      setupTimeout: time,
      teardownTimeout: time,
    };
  }

  // Returns what the summary needs about the script and the cluster.
  setUp() {
    this.indices.forEach(makeIndex);
    introduce(this.names());
    this.warmUp();
    const nodes = Object.values(ask('GET', '/_nodes?filter_path=nodes.*.version').json('nodes'));
    return {
      script: this.script,
      target: addresses,
      nodes: nodes.map(({ version }) => version),
      settings,
    };
  }

  warmUp() {
    if (WARM_UP === 0) {
      return;
    }
    const index = indexName(this.script, WARM_UP_PHASE);
    makeIndex({ name: index, mapping });
    const phase = { stream: -1, index, action: 'index', id: documentId, source: record, status: 201 };
    for (let first = 0; first < WARM_UP; first += WARM_UP_REQUEST) {
      const documents = Math.min(WARM_UP_REQUEST, WARM_UP - first);
      writeDocuments(phase, first, documents).send(WARM_UP_PHASE, first / WARM_UP_REQUEST);
    }
    removeIndex(index);
  }

  tearDown() {
    this.names().forEach((name) => accountFor(name, countDocuments(name)));
  }

  summarize(data) {
    return summarize(data, this.phases, this.names());
  }

  names() {
    return this.indices.map(({ name }) => name);
  }
}
