/**
 * A cluster's state: the whole answer to `GET _cluster/state`, or what the filter's admin path gives under `state`. As
 * JSON, or as what JSON was read to.
 */
export type State = string | Uint8Array | object;

/** A bulk request's body, plain or compressed with gzip. */
export type Body = string | Uint8Array;

/** The filter's configuration, in which `coordinator` may be left out. As JSON, or as what JSON was read to. */
export type Config = string | object;

/** A node by the cluster's id and by `node.name`. */
export interface NodeName {
  id: string;
  name: string;
}

export interface Node extends NodeName {
  /** Envoy's cluster for it, if it has one. */
  upstream: string | null;
}

/** What a name that operations are for stands for. */
export type NameKind = 'index' | 'alias' | 'data_stream' | 'data_stream_alias';

/**
 * How a shard was worked out: `shard = floor((hash mod modulus) / factor)`, where the remainder is never negative.
 */
export interface Choice {
  /** The murmur3 hash of the routing value, or else of the id, as a signed number of 32 bits. */
  hash: number;
  /** `routing_num_shards`, or the number of shards in indices that Elasticsearch 9.4 or later has made. */
  modulus: number;
  /** `routing_num_shards` by the number of shards, or 1. */
  factor: number;
  /** Over how many shards one routing value spreads; then `hash` has the offset in it that the id decides. */
  partition_size?: number;
  shard: number;
}

/** Where a document is. */
export interface Place {
  /** The index that is written to, whatever the name stands for. */
  index: string;
  kind: NameKind;
  shard: number;
  /** The node with the started primary, if there is one. */
  node: NodeName | null;
  choice: Choice;
}

/** A reason, as the filter's metrics call it, and in a sentence. */
export interface Why {
  reason: string;
  text: string;
}

/** Why a request passes on whole. */
export interface Fault extends Why {
  /** The position of the operation that is the reason, from 0 on. */
  operation?: number;
  /** The line that is, from 1 on. */
  line?: number;
  /** The name of the index that is. */
  name?: string;
}

export interface NodeTotal {
  /** `null` for what goes to the coordinating upstream. */
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

/** An operation, and why it goes where it goes. */
export interface ExplainedOperation {
  /** From 0 on, as in the items of an answer. */
  position: number;
  /** Of its action line, from 1 on. */
  line: number;
  action: 'index' | 'create' | 'update' | 'delete';
  /** As the line names it, or else the path. */
  name: string | null;
  kind?: NameKind;
  /** The index that is written to. */
  index?: string;
  id: string | null;
  /** What becomes of an operation without an id. */
  missing_id?: 'pass' | 'generate' | 'direct';
  /** The routing value that counts. */
  routing?: string;
  choice?: Choice;
  node?: NodeName;
  upstream: string;
  bytes: number;
  /** Why its node is not known, so that it goes to the coordinating upstream. */
  unrouted?: Why;
}

/** What becomes of a request. */
export interface Explanation {
  way: 'split' | 'passed_whole';
  /** Why it passes on whole. */
  because?: Fault;
  /** How many operations were read; if it passes on whole, those in front of the reason. */
  operations: number;
  bytes: number;
  /** Batches in which it would leave. */
  shares: number;
  nodes: NodeTotal[];
  shards: ShardTotal[];
  shards_left_out: number;
  unrouted: (Why & { operations: number })[];
  /** Without an id and thereby without a shard yet. */
  any_node: { operations: number; bytes: number };
  /** The most that one gets by what each would get on average; `null` if that is nothing. */
  skew: { nodes: number | null; shards: number | null };
  listed: ExplainedOperation[];
  left_out: number;
}

export interface Forwarded {
  operations: number;
  bytes: number;
  /** Of all operations, from 0 to 1. */
  share: number;
}

/**
 * What goes on from the node that takes a request to the one with the primary, if any node takes it in turn. Copies for
 * replicas are not in it: they cross either way.
 */
export interface Forwarding {
  nodes: number;
  without: Forwarded;
  /** The share at least and at most, depending on the node that takes the request. */
  range: [number, number];
  with: Forwarded;
}

/** What is simulated; what is left out is as the comment says. */
export interface Settings {
  /** Requests per second, of all clients together: 3000. */
  rate?: number;
  /** 256. One that waits for an answer sends nothing meanwhile. */
  clients?: number;
  /** Operations in each request: 2. */
  operations?: number;
  /** Envoy's worker threads: 2. */
  workers?: number;
  /** Nodes to which the shards are spread evenly; 0: the cluster's own. */
  nodes?: number;
  /** `hold.interval` in milliseconds: 50. */
  interval?: number;
  /** `hold.early_release`: true. */
  early_release?: boolean;
  /** Milliseconds that a node takes for each batch: 1. */
  batch_time?: number;
  /** Milliseconds that a node takes for each operation besides: 0.02. */
  operation_time?: number;
  /** How many requests come: 5000. */
  requests?: number;
  /** Another one makes another day: 1. */
  seed?: number;
}

export interface Run {
  requests: number;
  passed_whole: number;
  seconds: number;
  batches: {
    count: number;
    /** On average. */
    operations: number;
    /** Requests that have operations in one, on average. */
    requests: number;
    most_operations: number;
    /** How many have at most so many operations, and more than the ones before. */
    sizes: [most: number, count: number][];
  };
  /** Operations that went from one node to another. */
  forwarded: number;
  /** In milliseconds. */
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
  /** How many operations are listed: 1000. */
  listed?: number;
}

/** A cluster as its state describes it, for more than one question. */
export class Cluster {
  constructor(state: State, config?: Config);
  readonly nodes: Node[];
  /** Where a document is. Throws where that cannot be told, and says why. */
  shardOf(index: string, id?: string | null, routing?: string | null): Place;
  /** What becomes of a request. */
  explain(body: Body, options?: ExplainOptions): Explanation;
  /** What of a request crosses between the nodes. */
  forwarding(body: Body, options?: { path?: string }): Forwarding;
  /** What becomes of many requests that are made of a body's operations, in virtual time. */
  simulate(body: Body, options?: Settings & { path?: string }): Report;
}

/** Where a document is. Throws where that cannot be told, and says why. */
export function shardOf(state: State | Cluster, index: string, id?: string | null, routing?: string | null): Place;

/** What becomes of a request. The configuration counts only with a state that is no `Cluster` yet. */
export function explain(state: State | Cluster, body: Body, options?: ExplainOptions & { config?: Config }): Explanation;

/** What of a request crosses between the nodes. */
export function forwarding(
  state: State | Cluster,
  body: Body,
  options?: { path?: string; config?: Config },
): Forwarding;

/** What becomes of many requests that are made of a body's operations, in virtual time. */
export function simulate(
  state: State | Cluster,
  body: Body,
  options?: Settings & { path?: string; config?: Config },
): Report;

/** A cluster's state to try things out with. */
export function sampleState(): string;

/** A bulk body for it. */
export function sampleBody(): string;
