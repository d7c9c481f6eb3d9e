// A bulk request, or one that writes a single document, with the expected outcome of each operation.

import { check } from 'k6';
import { asBulkAnswer, findFaults } from './answer.js';
import { account, measure } from './metrics.js';
import { word } from './parameters.js';
import { postBulk, postDocument, whatHappened } from './target.js';

// The phase of requests that belong to no other phase. They are always bulk requests.
export const WARM_UP_PHASE = 'warm-up';

const IS_DOCUMENT = word('API', 'bulk', ['bulk', 'document']) === 'document';

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
    const started = Date.now();
    const answer = IS_DOCUMENT && phase !== WARM_UP_PHASE
      ? this.sendDocument(number, authorization)
      : postBulk(number, `${this.lines.join('\n')}\n`, authorization);
    const faults = findFaults(answer, this.operations);
    if (!check(faults, CHECKS, { phase })) {
      console.error(`request ${number} (${phase}): ${faults.first || whatHappened(answer)}`);
    }
    account(faults.items);
    measure(phase, started, answer.timings.duration, this.operations.length);
  }

  sendDocument(number, authorization) {
    const [operation] = this.operations;
    if (this.operations.length !== 1 || operation.action !== 'index') {
      throw new Error('with API=document, each request writes one document: give a script such as small');
    }
    return asBulkAnswer(postDocument(number, operation, this.lines[1], authorization), operation);
  }
}

const CHECKS = {
  'the status is 200': (faults) => !faults.status,
  'there is one item for each operation': (faults) => !faults.number,
  'each item has the action, index and id of the operation in its place': (faults) => !faults.identity,
  'each item has the status that its operation expects': (faults) => !faults.itemStatus,
  '`errors` says whether an item failed': (faults) => !faults.flag,
};
