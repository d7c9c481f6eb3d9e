// Several clients send larger documents in large requests, to an index whose translog is synced for each request, and
// to one whose translog is synced periodically.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number, words } from './lib/parameters.js';
import { Sequence, documentId } from './lib/phase.js';
import { mapping, trip } from './lib/trip.js';
import { Workload } from './lib/workload.js';

const translogs = words('TRANSLOGS', ['request', 'async'], ['request', 'async']);
const documents = number('DOCUMENTS', 100000);
const size = number('BULK_SIZE', 1000, 1, 100000);
const phases = translogs.map((name) => (
  { name, index: indexName('trips', name), action: 'index', size, documents, id: documentId, source: trip }
));
const sequence = new Sequence(phases);
const workload = new Workload({
  script: 'trips',
  indices: phases.map(({ name, index }) => ({ name: index, mapping, translog: name })),
  phases: translogs.map((name) => ({ name, operations: documents })),
  scenario: { executor: 'shared-iterations', vus: number('CLIENTS', 8), iterations: sequence.requests },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default () => sequence.send(exec.scenario.iterationInTest);
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
