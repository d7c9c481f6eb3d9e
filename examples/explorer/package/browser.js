// The entry point for browsers, with or without a bundler: fetches the compiled core from this file's folder.
import initialise from './core.js';

await initialise();

export * from './api.js';
