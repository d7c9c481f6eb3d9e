// Requests at a fixed rate, whether or not earlier ones are answered: shows what the same traffic costs the cluster.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number } from './lib/parameters.js';
import { documentId, writeDocuments } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const rate = number('RATE', 200);
const size = number('BULK_SIZE', 1, 1, 100000);
const clients = number('CLIENTS', 256);
const index = indexName('rate');
const name = `${rate}/s`;
const phase = { stream: 0, index, action: 'index', id: documentId, source: record, status: 201 };
const workload = new Workload({
  script: 'rate',
  indices: [{ name: index, mapping }],
  phases: [{ name }],
  scenario: {
    executor: 'constant-arrival-rate',
    rate,
    duration: `${number('SECONDS', 30)}s`,
    preAllocatedVUs: clients,
  },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default function () {
  const request = exec.scenario.iterationInTest;
  writeDocuments(phase, request * size, size).send(name, request);
}
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
