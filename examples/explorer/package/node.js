// The entry point for Node: reads the compiled core from this file's folder.
import { readFileSync } from 'node:fs';
import { initSync } from './core.js';

initSync({ module: readFileSync(new URL('core_bg.wasm', import.meta.url)) });

export * from './api.js';
