// In Node: the compiled core lies beside this file.
import { readFileSync } from 'node:fs';
import { initSync } from './core.js';

initSync({ module: readFileSync(new URL('core_bg.wasm', import.meta.url)) });

export * from './api.js';
