/**
 * A cluster's state: the whole answer to `GET _cluster/state`, or to `state` of the filter's admin path. As JSON text,
 * or as the parsed value.
 */
export type State = string | Uint8Array | object;

/** A bulk request's body, plain or compressed with gzip. */
export type Body = string | Uint8Array;

/** The filter's configuration, in which `coordinator` may be missing. As JSON text, or as the parsed value. */
export type Config = string | object;

/** A node's id in the cluster, and its `node.name`. */
export interface NodeName {
  id: string;
  name: string;
}

export interface Node extends NodeName {
  /** Envoy's cluster for it, if it has one. */
  upstream: string | null;
}

/** The kind of a name that operations are written to. */
export type NameKind = 'index' | 'alias' | 'data_stream' | 'data_stream_alias';

/**
 * The calculation of a shard: `shard = floor((hash mod modulus) / factor)`, where the remainder is never negative.
 */
export interface Choice {
  /** The murmur3 hash of the routing value, or of the id if there is none, as a signed 32-bit number. */
  hash: number;
  /** `routing_num_shards`, or the number of shards in indices that Elasticsearch 9.4 or later created. */
  modulus: number;
  /** `routing_num_shards` divided by the number of shards, or 1. */
  factor: number;
  /** The number of shards that one routing value spreads over; `hash` then includes the offset from the id. */
  partition_size?: number;
  shard: number;
}

/** The shard and node of a document. */
export interface Place {
  /** The index that is written to, after resolving the name. */
  index: string;
  kind: NameKind;
  shard: number;
  /** The node with the started primary shard, if there is one. */
  node: NodeName | null;
  choice: Choice;
}

/** A reason: its label in the filter's metrics, and a sentence. */
export interface Why {
  reason: string;
  text: string;
}

/** The reason why a request passes through. */
export interface Fault extends Why {
  /** The position of the operation that caused it, from 0. */
  operation?: number;
  /** The line that caused it, from 1. */
  line?: number;
  /** The name of the index that caused it. */
  name?: string;
  /** The ingest pipelines that caused it. */
  pipelines?: PipelineVerdict[];
}

/** The verdict on an ingest pipeline. */
export interface PipelineVerdict {
  name: string;
  /** Whether it is proven that it leaves the index, the id and the routing value of every document alone. */
  harmless: boolean;
  /** The reason why there is no proof. */
  because?: string;
}

export interface NodeTotal {
  /** `null` for operations that go to the coordinator. */
  node: NodeName | null;
  upstream: string;
  operations: number;
  bytes: number;
}

export interface ShardTotal {
  index: string;
  shard: number;
  node: NodeName | null;
  operations: number;
  bytes: number;
}

/** An operation, with the reasons for its destination. */
export interface ExplainedOperation {
  /** The position, from 0, as in the items of an answer. */
  position: number;
  /** The number of its action line, from 1. */
  line: number;
  action: 'index' | 'create' | 'update' | 'delete';
  /** The name of the index in the line, or in the path if the line has none. */
  name: string | null;
  kind?: NameKind;
  /** The index that is written to. */
  index?: string;
  id: string | null;
  /** The handling of an operation without an id. */
  missing_id?: 'pass' | 'generate' | 'direct';
  /** The effective routing value. */
  routing?: string;
  choice?: Choice;
  node?: NodeName;
  upstream: string;
  bytes: number;
  /** The ingest pipelines that the cluster runs for it, in their order. */
  pipelines?: string[];
  /** The reason why its node is unknown, so that it goes to the coordinator. */
  unrouted?: Why;
}

/** The handling of a request. */
export interface Explanation {
  way: 'split' | 'passed_whole';
  /** The reason why it passes through. */
  because?: Fault;
  /** The number of operations read; if the request passes through, of those before the cause. */
  operations: number;
  bytes: number;
  /** The number of batches that it would leave in. */
  shares: number;
  nodes: NodeTotal[];
  shards: ShardTotal[];
  shards_left_out: number;
  unrouted: (Why & { operations: number })[];
  /** Operations without an id, and so without a shard yet. */
  any_node: { operations: number; bytes: number };
  /** The maximum of one divided by the average; `null` if the average is 0. */
  skew: { nodes: number | null; shards: number | null };
  listed: ExplainedOperation[];
  left_out: number;
}

export interface Forwarded {
  operations: number;
  bytes: number;
  /** The share of all operations, from 0 to 1. */
  share: number;
}

/**
 * The operations that the receiving node forwards to the node with the primary shard, if a client writes to the nodes
 * round robin. Copies for replicas are left out: they cross between nodes in both cases.
 */
export interface Forwarding {
  nodes: number;
  without: Forwarded;
  /** The minimum and maximum share, depending on the node that receives the request. */
  range: [number, number];
  with: Forwarded;
}

/** The settings of a simulation. Each comment ends with the default. */
export interface Settings {
  /** Requests per second, of all clients together: 3000. */
  rate?: number;
  /** Clients, each of which sends nothing while it waits for an answer: 256. */
  clients?: number;
  /** Operations in each request: 2. */
  operations?: number;
  /** Envoy's worker threads: 2. */
  workers?: number;
  /** Nodes that share the shards evenly, where 0 means the cluster's own: 0. */
  nodes?: number;
  /** `hold.interval` in milliseconds: 50. */
  interval?: number;
  /** `hold.early_release`: true. */
  early_release?: boolean;
  /** Milliseconds that a node takes for each batch: 1. */
  batch_time?: number;
  /** Additional milliseconds that a node takes for each operation: 0.02. */
  operation_time?: number;
  /** Number of requests: 5000. */
  requests?: number;
  /** Seed of the random choices: 1. */
  seed?: number;
}

export interface Run {
  requests: number;
  passed_whole: number;
  seconds: number;
  batches: {
    count: number;
    /** Operations in a batch, on average. */
    operations: number;
    /** Requests that share a batch, on average. */
    requests: number;
    most_operations: number;
    /** The number of batches with at most `most` operations, and more than the previous entry's. */
    sizes: [most: number, count: number][];
  };
  /** Operations that one node forwarded to another. */
  forwarded: number;
  /** Percentiles in milliseconds. */
  latency: { p50: number; p95: number; p99: number };
  nodes: { node: NodeName; batches: number; operations: number; busy: number }[];
}

export interface Report {
  settings: Required<Settings>;
  with: Run;
  without: Run;
}

export interface ExplainOptions {
  /** Path and query of the request: `/_bulk`. */
  path?: string;
  /** Maximum number of listed operations: 1000. */
  listed?: number;
}

/** A cluster as its state describes it, for several calls. */
export class Cluster {
  constructor(state: State, config?: Config);
  readonly nodes: Node[];
  /** Returns a document's place. Throws an error with the reason if it is unknown. */
  shardOf(index: string, id?: string | null, routing?: string | null): Place;
  /** Explains the handling of a request. */
  explain(body: Body, options?: ExplainOptions): Explanation;
  /** Counts a request's operations that nodes forward to one another. */
  forwarding(body: Body, options?: { path?: string }): Forwarding;
  /** Simulates many requests made from a body's operations, in virtual time. */
  simulate(body: Body, options?: Settings & { path?: string }): Report;
}

/** Returns a document's place. Throws an error with the reason if it is unknown. */
export function shardOf(state: State | Cluster, index: string, id?: string | null, routing?: string | null): Place;

/** Explains the handling of a request. The configuration has no effect if the state is already a `Cluster`. */
export function explain(state: State | Cluster, body: Body, options?: ExplainOptions & { config?: Config }): Explanation;

/** Counts a request's operations that nodes forward to one another. */
export function forwarding(
  state: State | Cluster,
  body: Body,
  options?: { path?: string; config?: Config },
): Forwarding;

/** Simulates many requests made from a body's operations, in virtual time. */
export function simulate(
  state: State | Cluster,
  body: Body,
  options?: Settings & { path?: string; config?: Config },
): Report;

/** Returns a sample cluster state. */
export function sampleState(): string;

/** Returns a sample bulk body for it. */
export function sampleBody(): string;
