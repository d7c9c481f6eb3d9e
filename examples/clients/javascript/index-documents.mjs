// Indexes the documents of a file: one JSON object in each line, with an "id".
//
//     ELASTICSEARCH_URL=http://127.0.0.1:9200 node index-documents.mjs INDEX FILE

import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { Client } from '@elastic/elasticsearch'

const { ELASTICSEARCH_URL: node = 'http://127.0.0.1:9200', ELASTICSEARCH_API_KEY: apiKey } = process.env
const [index, file] = process.argv.slice(2)

// One client for the whole program keeps its connections open.
const client = new Client({ node, ...(apiKey && { auth: { apiKey } }), requestTimeout: 120_000 })

const { successful, failed } = await client.helpers.bulk({
  datasource: documents(file),
  onDocument: ({ id }) => ({ index: { _index: index, _id: id } }), // with ids, unknown outcomes can be retried
  flushBytes: 1_000_000,
  concurrency: 4,
  retries: 5, // of documents that were refused with 429
  wait: 500, // milliseconds before a retry
  // The request as a whole was answered with 200: only the items show which documents were not indexed.
  onDrop: ({ operation, status, error }) => console.error(operation.index._id, status, error?.type ?? 'refused')
})
console.log(`${successful} indexed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0

async function * documents (file) {
  for await (const line of createInterface({ input: createReadStream(file) })) yield JSON.parse(line)
}
