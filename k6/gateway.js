// One client sends very large requests: documents without ids, documents with ids, and the same ids again. A gateway
// with disk queues was measured in this way.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number, words } from './lib/parameters.js';
import { Sequence, documentId } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const ROUNDS = {
  without: { part: 'without-ids', id: undefined, status: 201 },
  new: { part: 'with-ids', id: documentId, status: 201 },
  again: { part: 'with-ids', id: documentId, status: 200 },
};

const rounds = words('ROUNDS', ['without', 'new', 'again'], Object.keys(ROUNDS));
if (rounds.includes('again') && !rounds.slice(0, rounds.indexOf('again')).includes('new')) {
  throw new Error('ROUNDS has "again" without a "new" before it, so there are no documents to write again: add "new"');
}
const size = number('BULK_SIZE', 10000, 1, 100000);
const documents = size * number('REQUESTS', 30);
const phases = rounds.map((name) => {
  const { part, id, status } = ROUNDS[name];
  return { name, index: indexName('gateway', part), action: 'index', size, documents, id, source: record, status };
});
const sequence = new Sequence(phases);
const workload = new Workload({
  script: 'gateway',
  indices: [...new Set(phases.map(({ index }) => index))].map((name) => ({ name, mapping })),
  phases: rounds.map((name) => ({ name, operations: documents })),
  scenario: { executor: 'shared-iterations', vus: 1, iterations: sequence.requests },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default () => sequence.send(exec.scenario.iterationInTest);
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
