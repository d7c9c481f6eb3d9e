// A part of a workload in which all requests are alike, and a sequence of such parts.

import { BulkRequest } from './bulk-request.js';
import { number } from './parameters.js';
import { Random } from './random.js';

const SEED = number('SEED', 1, 0);

// Makes the bulk request that writes the documents from `first` on. `phase` says how: its `name` and `stream` (phases
// of different streams write different content), `index`, `action`, the `status` of each operation, how a document's
// `source` is made, and its `id` from its number; without it the cluster makes the ids.
export function writeDocuments(phase, first, documents) {
  const request = new BulkRequest();
  const random = new Random(SEED, phase.stream, first);
  for (let document = first; document < first + documents; document++) {
    const id = phase.id && phase.id(document);
    request.add(phase.action, phase.index, id, phase.source(random, document), phase.status);
  }
  return request;
}

// A source of random numbers for things other than documents.
export function randomOf(...numbers) {
  return new Random(SEED, ...numbers);
}

// Seven digits and more, like the ids of the gateway's measurement: two or three that change slowly, and five.
export function documentId(document) {
  const prefix = String(1 + Math.floor(document / 9999)).padStart(2, '0');
  return prefix + String(1 + (document % 9999)).padStart(5, '0');
}

// Phases one after the other, each of `documents` in requests of `size`.
export class Sequence {
  constructor(phases) {
    this.phases = phases.map((phase, stream) => Object.assign({ stream, status: 201 }, phase));
  }

  get requests() {
    return this.phases.reduce((sum, phase) => sum + requestsOf(phase), 0);
  }

  // Sends the request of this number, counted over all phases.
  send(number) {
    let place = number;
    for (const phase of this.phases) {
      const requests = requestsOf(phase);
      if (place < requests) {
        const first = place * phase.size;
        writeDocuments(phase, first, Math.min(phase.size, phase.documents - first)).send(phase.name, number);
        return;
      }
      place -= requests;
    }
  }
}

function requestsOf({ documents, size }) {
  return Math.ceil(documents / size);
}
