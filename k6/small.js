// Many clients send requests of one document each.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number } from './lib/parameters.js';
import { Sequence, documentId } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const index = indexName('small');
const requests = number('REQUESTS', 50000);
const sequence = new Sequence([
  { name: 'small', index, action: 'index', size: 1, documents: requests, id: documentId, source: record },
]);
const workload = new Workload({
  script: 'small',
  indices: [{ name: index, mapping }],
  phases: [{ name: 'small', operations: requests }],
  scenario: { executor: 'shared-iterations', vus: number('CLIENTS', 256), iterations: sequence.requests },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default () => sequence.send(exec.scenario.iterationInTest);
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
