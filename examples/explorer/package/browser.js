// In a browser, by itself or through a bundler: the compiled core is fetched from beside this file.
import initialise from './core.js';

await initialise();

export * from './api.js';
