// The exported functions, on top of the compiled core. See index.d.ts.
import { RawCluster, sampleBody, sampleState } from './core.js';

export { sampleBody, sampleState };

const utf8 = { read: new TextDecoder(), write: new TextEncoder() };

/** Returns JSON text from any of the accepted types. */
function json(value) {
  if (typeof value === 'string') return value;
  return value instanceof Uint8Array ? utf8.read.decode(value) : JSON.stringify(value);
}

function bytes(body) {
  return typeof body === 'string' ? utf8.write.encode(body) : body;
}

export class Cluster {
  #raw;

  constructor(state, config = {}) {
    this.#raw = new RawCluster(json(state), json(config));
  }

  get nodes() {
    return this.#raw.nodes();
  }

  shardOf(index, id, routing) {
    return this.#raw.shardOf(index, id ?? undefined, routing ?? undefined);
  }

  explain(body, { path = '/_bulk', listed = 1000 } = {}) {
    return this.#raw.explain(bytes(body), path, listed);
  }

  forwarding(body, { path = '/_bulk' } = {}) {
    return this.#raw.forwarding(bytes(body), path);
  }

  simulate(body, { path = '/_bulk', ...settings } = {}) {
    return this.#raw.simulate(bytes(body), path, JSON.stringify(settings));
  }
}

function cluster(state, config) {
  return state instanceof Cluster ? state : new Cluster(state, config);
}

export function shardOf(state, index, id, routing) {
  return cluster(state).shardOf(index, id, routing);
}

export function explain(state, body, { config, ...options } = {}) {
  return cluster(state, config).explain(body, options);
}

export function forwarding(state, body, { config, ...options } = {}) {
  return cluster(state, config).forwarding(body, options);
}

export function simulate(state, body, { config, ...options } = {}) {
  return cluster(state, config).simulate(body, options);
}
