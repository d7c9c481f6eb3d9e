'use strict'
// Sends operations with the client for Elasticsearch or OpenSearch. See ../README.md.

const { readFileSync } = require('node:fs')
const { parseArgs } = require('node:util')

const CONCURRENCY = 4
const FLUSH_BYTES = 2000
// The fields of an answer that the helper reads and that the report needs.
const FILTER_PATH = 'errors,items.*.status,items.*.error,items.*._id'

const clients = {
  elasticsearch: (node, compress) => new (require('@elastic/elasticsearch').Client)({ node, compression: compress }),
  opensearch: (node, compress) =>
    new (require('@opensearch-project/opensearch').Client)({ node, ...(compress && { compression: 'gzip' }) })
}

async function main () {
  const { values: options, positionals: [name, url, index, file] } = parseArgs({
    allowPositionals: true,
    options: { compress: { type: 'boolean' }, 'filter-path': { type: 'boolean' }, single: { type: 'boolean' } }
  })
  const client = clients[name](url, Boolean(options.compress))
  const operations = readFileSync(file, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
  const send = options.single ? sendSingle : sendBulk
  const stats = await send(name, client, index, operations, options)
  await client.close()
  console.log(JSON.stringify({ succeeded: stats.successful, failed: stats.failed }))
}

function sendBulk (name, client, index, operations, options) {
  return client.helpers.bulk({
    datasource: operations,
    onDocument: (operation) => lines(index, operation),
    // The helper of OpenSearch's client reports failures only.
    ...(name === 'elasticsearch' && {
      onSuccess: ({ result, document }) => {
        const [[action, item]] = Object.entries(result)
        report(action, item._id, item.status, null, document)
      }
    }),
    onDrop: ({ status, error, operation, document }) => {
      const [[action, item]] = Object.entries(operation)
      report(action, item._id ?? null, status, error?.type ?? null, document)
    },
    concurrency: CONCURRENCY,
    flushBytes: FLUSH_BYTES,
    ...(options['filter-path'] && { filter_path: FILTER_PATH })
  })
}

// Sends each operation in a request of its own.
async function sendSingle (name, client, index, operations) {
  const stats = { successful: 0, failed: 0 }
  const isNew = name === 'elasticsearch'
  const send = async (operation) => {
    const { n, action, id, routing, document } = operation
    const body = action === 'update' ? { doc: document } : document
    const content = isNew && action !== 'update' ? { document } : isNew ? { doc: document } : { body }
    const parameters = { index, ...(id !== null && { id }), ...(routing !== null && { routing }) }
    try {
      const answer = await client[action]({ ...parameters, ...(action !== 'delete' && content) })
      const { _id, _version, result } = answer.body ?? answer
      stats.successful++
      report(action, _id, result === 'created' ? 201 : 200, null, { n }, _version)
    } catch (failure) {
      if (failure.statusCode === undefined) throw failure
      stats.failed++
      const answer = failure.body ?? failure.meta.body
      report(action, id, failure.statusCode, answer.error?.type ?? null, { n })
    }
  }
  const workers = Array.from({ length: CONCURRENCY }, async (_, first) => {
    for (let place = first; place < operations.length; place += CONCURRENCY) await send(operations[place])
  })
  await Promise.all(workers)
  return stats
}

function lines (index, { action, id, routing, document }) {
  const head = { [action]: { _index: index, ...(id !== null && { _id: id }), ...(routing !== null && { routing }) } }
  if (action === 'delete') return head
  return [head, action === 'update' ? { doc: document } : document]
}

function report (action, id, status, error, document, version) {
  const n = document?.n ?? document?.doc?.n ?? null
  console.log(JSON.stringify({ n, action, id, status, version, error }))
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
