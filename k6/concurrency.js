// An increasing number of concurrent clients: shows where throughput stops growing, and the waiting time beyond.

import exec from 'k6/execution';
import { indexName } from './lib/index.js';
import { number, numbers } from './lib/parameters.js';
import { documentId, writeDocuments } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const CLIENTS = [1, 2, 3, 4, 6, 8, 12, 16, 20, 25, 30, 64, 128, 256];

const steps = numbers('CLIENTS', CLIENTS);
if (steps.some((clients, step) => step > 0 && clients <= steps[step - 1])) {
  throw new Error(`CLIENTS has "${steps}": give numbers in ascending order`);
}
const seconds = number('STEP_SECONDS', 10);
const size = number('BULK_SIZE', 10, 1, 100000);
const index = indexName('concurrency');
const phase = { stream: 0, index, action: 'index', id: documentId, source: record, status: 201 };
const workload = new Workload({
  script: 'concurrency',
  indices: [{ name: index, mapping }],
  phases: steps.map((clients) => ({ name: String(clients) })),
  scenario: {
    executor: 'ramping-vus',
    startVUs: steps[0],
    stages: [].concat(...steps.map((target) => [{ target, duration: '0s' }, { target, duration: `${seconds}s` }])),
    gracefulRampDown: '60s',
  },
});

export const options = workload.options;
export const setup = () => workload.setUp();
export default function () {
  const request = exec.scenario.iterationInTest;
  // A request belongs to the step in which it begins.
  const step = Math.min(Math.floor(exec.scenario.progress * steps.length), steps.length - 1);
  writeDocuments(phase, request * size, size).send(String(steps[step]), request);
}
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
