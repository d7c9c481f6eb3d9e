// Compiled, never run: the types say what there is, and refuse what there is not.
import { Cluster, explain, shardOf, simulate, type Explanation } from 'bulk-reshuffle-explorer';

declare const state: string;

const shard: number = shardOf(state, 'orders', 'o-17').shard;
const name: string | undefined = shardOf({ nodes: {} }, 'orders', null, 'routing').node?.name;
const explanation: Explanation = explain(new Cluster(state), new Uint8Array(), { path: '/logs/_bulk', listed: 10 });
const median: number = simulate(state, '', { rate: 10, seed: 7, config: { missing_id: 'pass' } }).with.latency.p50;

// @ts-expect-error A shard is a number.
const text: string = shardOf(state, 'orders', 'o-17').shard;
// @ts-expect-error There is no such field.
explanation.nothing;
// @ts-expect-error Nor such a setting.
simulate(state, '', { speed: 1 });
// @ts-expect-error An index has to be named.
shardOf(state);

export { shard, name, median, text };
