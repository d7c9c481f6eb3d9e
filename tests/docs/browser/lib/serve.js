'use strict'
// A web server for a folder of files.

const { readFile } = require('node:fs/promises')
const { createServer } = require('node:http')
const { extname, join, normalize } = require('node:path')

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm'
}

/// Serves the folder on loopback until the test ends, and returns the address of its index.html.
exports.serve = async function serve (test, folder) {
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
  test.after(() => server.close())
  return `http://127.0.0.1:${server.address().port}/`
}
