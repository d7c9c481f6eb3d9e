// Phases, the parts of a workload in which all requests are alike, and sequences of them.

import { BulkRequest } from './bulk-request.js';
import { number } from './parameters.js';
import { Random } from './random.js';

const SEED = number('SEED', 1, 0);

// Returns the bulk request that writes the documents from `first` on. `phase` has a `name`, a `stream` (phases of
// different streams write different content), an `index`, an `action`, the expected `status` of each operation, a
// function for a document's `source`, and one for its `id`, from the document's number. Without `id`, the cluster
// generates the ids.
export function writeDocuments(phase, first, documents) {
  const request = new BulkRequest();
  const random = new Random(SEED, phase.stream, first);
  for (let document = first; document < first + documents; document++) {
    const id = phase.id && phase.id(document);
    request.add(phase.action, phase.index, id, phase.source(random, document), phase.status);
  }
  return request;
}

// Returns a source of random numbers for values other than documents.
export function randomOf(...numbers) {
  return new Random(SEED, ...numbers);
}

// Returns an id of seven or more digits, as in the gateway's measurement: two or three that change slowly, and five.
export function documentId(document) {
  const prefix = String(1 + Math.floor(document / 9999)).padStart(2, '0');
  return prefix + String(1 + (document % 9999)).padStart(5, '0');
}

// Consecutive phases, each with `documents` in requests of `size`.
export class Sequence {
  constructor(phases) {
    this.phases = phases.map((phase, stream) => Object.assign({ stream, status: 201 }, phase));
  }

  get requests() {
    return this.phases.reduce((sum, phase) => sum + requestsOf(phase), 0);
  }

  // Sends the request with this number, counted over all phases.
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
