// A bulk request, with the expected outcome of each operation.

import { check } from 'k6';
import { findFaults } from './answer.js';
import { account, measure } from './metrics.js';
import { postBulk, whatHappened } from './target.js';

export class BulkRequest {
  constructor() {
    this.lines = [];
    this.operations = [];
  }

  // Adds an operation. If `id` is undefined, the cluster generates one. `source` is JSON text, undefined for a delete.
  add(action, index, id, source, status) {
    const idField = id === undefined ? '' : `,"_id":"${id}"`;
    this.lines.push(`{"${action}":{"_index":"${index}"${idField}}}`);
    if (source !== undefined) {
      this.lines.push(source);
    }
    this.operations.push({ action, index, id, status });
  }

  // Sends the request and checks its answer. The number selects one of several addresses.
  send(phase, number, authorization) {
    const body = `${this.lines.join('\n')}\n`;
    const started = Date.now();
    const answer = postBulk(number, body, authorization);
    const faults = findFaults(answer, this.operations);
    if (!check(faults, CHECKS, { phase })) {
      console.error(`request ${number} (${phase}): ${faults.first || whatHappened(answer)}`);
    }
    account(faults.items);
    measure(phase, started, answer.timings.duration, this.operations.length);
  }
}

const CHECKS = {
  'the status is 200': (faults) => !faults.status,
  'there is one item for each operation': (faults) => !faults.number,
  'each item has the action, index and id of the operation in its place': (faults) => !faults.identity,
  'each item has the status that its operation expects': (faults) => !faults.itemStatus,
  '`errors` says whether an item failed': (faults) => !faults.flag,
};
