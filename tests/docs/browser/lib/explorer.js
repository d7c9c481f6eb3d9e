'use strict'
// The explorer, started as a user starts it for a running filter.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { join } = require('node:path')
const { createInterface } = require('node:readline')

/// Serves the explorer and an admin path until the test ends, and returns the address.
exports.serveExplorer = async function serveExplorer (test, admin) {
  const script = join(__dirname, '../../../../examples/explorer/serve.py')
  const server = spawn('python3', [script, admin], { env: { ...process.env, PORT: '0' } })
  test.after(() => server.kill())
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  return line
}

/// Waits until the explorer's page has finished the simulation.
exports.simulated = (page) => page.locator('#simulated', { hasText: 'virtual seconds' }).waitFor()
