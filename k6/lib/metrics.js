// What is measured, by phase, and what is counted, by index.

import { Counter, Gauge, Trend } from 'k6/metrics';

// From sending a request to the last byte of its answer.
const duration = new Trend('bulk_duration', true);
// Operations that were answered.
const operationsAnswered = new Counter('bulk_operations');
// When requests began and ended: its least and greatest value are a phase's beginning and end.
const clock = new Gauge('bulk_clock', true);
// The documents that the cluster counts at the end, less those whose writing it has acknowledged.
const unaccounted = new Counter('documents_unaccounted');
// The documents that were counted, and those that were acknowledged.
const acknowledged = new Counter('documents_acknowledged');
const counted = new Counter('documents_counted');

export function measure(phase, started, milliseconds, operations) {
  const tags = { phase };
  duration.add(milliseconds, tags);
  operationsAnswered.add(operations, tags);
  clock.add(started, tags);
  clock.add(Date.now(), tags);
}

// Notes how many documents each index has gained, going by the items.
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

// Without a threshold k6 keeps no figures by tag, so each figure that the summary shows has one, if only one that
// always holds. `phases` have a `name` and, if it is known, the number of their `operations`.
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
