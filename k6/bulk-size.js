// One client sends requests of increasing size: shows the cost of a request, and of a document.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number, numbers, word } from './lib/parameters.js';
import { Sequence, documentId } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const SIZES = [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 1000, 10000];

const documents = number('DOCUMENTS', 10000);
const id = word('IDS', 'with', ['with', 'without']) === 'with' ? documentId : undefined;
// A new index for each size, so that no size pays for the segments of another.
const phases = numbers('SIZES', SIZES, 1, 100000).map((size) => (
  { name: String(size), index: indexName('bulk-size', size), action: 'create', size, documents, id, source: record }
));
const sequence = new Sequence(phases);
const workload = new Workload({
  script: 'bulk-size',
  indices: phases.map(({ index }) => ({ name: index, mapping })),
  phases: phases.map(({ name }) => ({ name, operations: documents })),
  scenario: { executor: 'shared-iterations', vus: number('CLIENTS', 1), iterations: sequence.requests },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default () => sequence.send(exec.scenario.iterationInTest);
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
