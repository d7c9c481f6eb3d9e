'use strict'
// Web servers for the pages under test: of a folder of files, and of the explorer for a running filter. They run until
// all tests of a file have ended. A page may load something until it is closed at the end of its test, and Node would
// close a server of that test before the page, since it runs the hooks of a test in the order of their registration.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { readFile } = require('node:fs/promises')
const { createServer } = require('node:http')
const { extname, join, normalize } = require('node:path')
const { createInterface } = require('node:readline')
const { after } = require('node:test')

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm'
}

const ends = []
after(() => ends.forEach((end) => end()))

/// Serves the folder on loopback, and returns the address of its index.html.
exports.serve = async function serve (folder) {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname))
    const file = path.endsWith('/') ? join(path, 'index.html') : path
    try {
      const content = await readFile(join(folder, file))
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(content)
    } catch {
      response.writeHead(404).end()
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => server.close())
  return `http://127.0.0.1:${server.address().port}/`
}

/// Serves the explorer for the filter with this admin path, as a user starts it, and returns the address.
exports.serveExplorer = async function serveExplorer (admin) {
  const script = join(__dirname, '../../../../examples/explorer/serve.py')
  const server = spawn('python3', [script, admin], { env: { ...process.env, PORT: '0' } })
  ends.push(() => server.kill())
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  return line
}
