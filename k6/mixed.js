// Two tenants with their own credentials write, update and delete: mostly in one hot index that both use, otherwise in
// an index of their own. Some operations fail, as some do in production.

import exec from 'k6/execution';
import { BulkRequest } from './lib/bulk-request.js';
import { indexName, settings } from './lib/index.js';
import { number, text } from './lib/parameters.js';
import { randomOf } from './lib/phase.js';
import { mapping, record } from './lib/record.js';
import { Workload } from './lib/workload.js';

const TENANTS = [
  { name: 'a', index: indexName('mixed', 'a'), authorization: text('AUTHORIZATION_A', 'ApiKey dGVuYW50LWE=') },
  { name: 'b', index: indexName('mixed', 'b'), authorization: text('AUTHORIZATION_B', 'ApiKey dGVuYW50LWI=') },
];
const HOT = indexName('mixed', 'hot');

const clients = number('CLIENTS', 16);
const requests = number('REQUESTS', 250);
const size = number('BULK_SIZE', 20, 1, 100000);
const hotPercent = number('HOT_PERCENT', 80, 0, 100);
const hotShards = number('HOT_SHARDS', settings.shards);
const workload = new Workload({
  script: 'mixed',
  indices: [
    { name: HOT, mapping, shards: hotShards },
    ...TENANTS.map(({ index }) => ({ name: index, mapping })),
  ],
  phases: TENANTS.map((tenant) => ({ name: phaseOf(tenant), operations: clients * requests * size })),
  scenario: { executor: 'per-vu-iterations', vus: TENANTS.length * clients, iterations: requests },
});

// A client has its own documents, so it knows the outcome of each of its operations. An error in the order of its
// operations, or between the clients, shows as a wrong status.
class Client {
  constructor(number) {
    this.number = number;
    this.tenant = TENANTS[number % TENANTS.length];
    this.random = randomOf(number);
    this.documents = [];
    this.made = 0;
  }

  send(number) {
    const request = new BulkRequest();
    while (request.operations.length < size) {
      this.addOperation(request);
    }
    request.send(phaseOf(this.tenant), number, this.tenant.authorization);
  }

  addOperation(request) {
    const percent = this.random.below(100);
    if (percent < 60 || this.documents.length === 0) {
      this.addNew(request, percent % 2 ? 'index' : 'create');
    } else if (percent < 78) {
      this.addToKnown(request, 'update', `{"doc":{"field4":${this.random.below(1000)}}}`, 200);
    } else if (percent < 86) {
      this.addToKnown(request, 'index', this.source(), 200);
    } else if (percent < 96) {
      this.addDelete(request);
    } else {
      this.addFailure(request, percent);
    }
  }

  addNew(request, action) {
    const document = { index: this.chooseIndex(), id: this.newId() };
    this.documents.push(document);
    request.add(action, document.index, document.id, this.source(), 201);
  }

  addToKnown(request, action, source, status) {
    const { index, id } = this.random.oneOf(this.documents);
    request.add(action, index, id, source, status);
  }

  addDelete(request) {
    const [{ index, id }] = this.documents.splice(this.random.below(this.documents.length), 1);
    request.add('delete', index, id, undefined, 200);
  }

  addFailure(request, percent) {
    switch (percent % 3) {
      case 0:
        return request.add('delete', this.chooseIndex(), this.newId(), undefined, 404);
      case 1:
        return request.add('update', this.chooseIndex(), this.newId(), '{"doc":{"field4":1}}', 404);
      default:
        return this.addToKnown(request, 'create', this.source(), 409);
    }
  }

  chooseIndex() {
    return this.random.below(100) < hotPercent ? HOT : this.tenant.index;
  }

  newId() {
    this.made += 1;
    return `${this.tenant.name}-${this.number}-${this.made}`;
  }

  source() {
    return record(this.random, this.made);
  }
}

function phaseOf(tenant) {
  return `tenant ${tenant.name}`;
}

// Each of k6's virtual users has its own client.
let client;

export const options = workload.options;
export const setup = () => workload.setUp();
export default function () {
  client = client || new Client(exec.vu.idInTest);
  client.send(exec.scenario.iterationInTest);
}
export const teardown = () => workload.tearDown();
export const handleSummary = (data) => workload.summarize(data);
