// The indices that a script writes to. The script makes them at the start, counts them at the end, and leaves them for
// inspection.

import { number, text, word } from './parameters.js';
import { ask, postBulk } from './target.js';

// Marks the indices of these scripts, which never replace any other index.
const MAKER = 'the k6 scripts of bulk-reshuffle';

export const settings = {
  shards: number('SHARDS', 6),
  replicas: number('REPLICAS', 0, 0),
  translog: word('TRANSLOG', 'request', ['request', 'async']),
};

// Returns the name of a script's index. A script with several indices gives each its own `part`.
export function indexName(script, part = '') {
  const name = text('INDEX', `k6-${script}`);
  return part ? `${name}-${part}` : name;
}

// Makes an empty index with these fields, and waits until all its shards have started.
export function makeIndex({ name, mapping, shards = settings.shards, translog = settings.translog }) {
  removeIndex(name);
  const made = ask('PUT', `/${name}?wait_for_active_shards=all&timeout=60s`, {
    settings: {
      number_of_shards: shards,
      number_of_replicas: settings.replicas,
      'translog.durability': translog,
    },
    mappings: { _meta: { made_by: MAKER }, properties: mapping },
  }).json();
  if (!made.shards_acknowledged) {
    throw new Error(`not all shards of ${name} have started: give fewer REPLICAS (${settings.replicas}) than nodes, ` +
      'or look at GET /_cluster/allocation/explain');
  }
}

// Sends a request for these indices that changes nothing. A proxy that routes by the cluster's state learns of a new
// index from the first request for it, which should not be a measured one.
export function introduce(names) {
  postBulk(0, names.map((_index) => `${JSON.stringify({ delete: { _index, _id: 'none' } })}\n`).join(''));
}

// Returns the number of documents in an index.
export function countDocuments(name) {
  ask('POST', `/${name}/_refresh`);
  return ask('GET', `/${name}/_count`).json('count');
}

// Removes an index that an earlier run made.
export function removeIndex(name) {
  const found = ask('GET', `/${name}/_mapping`, null, [200, 404]);
  if (found.status === 404) {
    return;
  }
  const maker = Object.values(found.json()).map(({ mappings }) => (mappings._meta || {}).made_by);
  if (maker.length !== 1 || maker[0] !== MAKER) {
    throw new Error(`there is an index or alias ${name} that these scripts did not make: give INDEX another name`);
  }
  ask('DELETE', `/${name}`);
}
