// Measurements by phase, and counts by index.

import { Counter, Gauge, Trend } from 'k6/metrics';

// From sending a request to the last byte of its answer.
const duration = new Trend('bulk_duration', true);
// Operations that were answered.
const operationsAnswered = new Counter('bulk_operations');
// The start and end times of requests: the smallest and greatest values are a phase's start and end.
const clock = new Gauge('bulk_clock', true);
// The documents that the cluster counts at the end, minus those that it has acknowledged.
const unaccounted = new Counter('documents_unaccounted');
// The documents that were acknowledged, and those that were counted.
const acknowledged = new Counter('documents_acknowledged');
const counted = new Counter('documents_counted');

export function measure(phase, started, milliseconds, operations) {
  const tags = { phase };
  duration.add(milliseconds, tags);
  operationsAnswered.add(operations, tags);
  clock.add(started, tags);
  clock.add(Date.now(), tags);
}

// Adds up the documents that each index has gained, according to the items.
export function account(items) {
  const gained = {};
  for (const item of items) {
    for (const action in item) {
      const { _index, status } = item[action] || {};
      gained[_index] = (gained[_index] || 0) + gain(action, status);
    }
  }
  for (const index in gained) {
    acknowledged.add(gained[index], { index });
    unaccounted.add(-gained[index], { index });
  }
}

export function accountFor(index, documents) {
  counted.add(documents, { index });
  unaccounted.add(documents, { index });
}

function gain(action, status) {
  if (action === 'delete') {
    return status === 200 ? -1 : 0;
  }
  return status === 201 ? 1 : 0;
}

// Returns a threshold for each figure that the summary shows, because k6 keeps no figures by tag without one. Some
// always hold. `phases` have a `name` and, if it is known, the number of their `operations`.
export function thresholds(phases, indices) {
  const wanted = {
    checks: [{ threshold: 'rate==1', abortOnFail: true }],
  };
  phases.forEach(({ name, operations }) => {
    wanted[`bulk_duration{phase:${name}}`] = ['max>=0'];
    wanted[`bulk_operations{phase:${name}}`] = [operations === undefined ? 'count>0' : `count==${operations}`];
    wanted[`bulk_clock{phase:${name}}`] = ['value>=0'];
  });
  indices.forEach((index) => {
    wanted[`documents_acknowledged{index:${index}}`] = ['count>=0'];
    wanted[`documents_counted{index:${index}}`] = ['count>=0'];
    wanted[`documents_unaccounted{index:${index}}`] = ['count==0'];
  });
  return wanted;
}
