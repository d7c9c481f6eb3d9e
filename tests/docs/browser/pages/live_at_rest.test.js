'use strict'
// Tests of the live page when all clients have their answers: the page matches Envoy's counters.

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { open } = require('../lib/page')

const NAME = /^wasmcustom\.bulk_reshuffle_(.+)\.coordinator\.es$/

test('the page matches the counters of Envoy', async (t) => {
  const { stats } = await (await fetch(process.env.STATS_URL)).json()
  const counted = new Map(stats.filter(({ name }) => NAME.test(name)).map(({ name, value }) => [NAME.exec(name)[1], value]))
  const page = await open(t, process.env.PAGE_URL)
  await page.getByText('Refreshed every 2 s').waitFor()
  const show = (number) => new Intl.NumberFormat('en', { maximumFractionDigits: 0 }).format(number)
  for (const reason of ['pipeline', 'parameter']) {
    const row = page.locator('#passed tbody tr', { hasText: reason })
    const count = counted.get(`requests_total.outcome.passed_through.reason.${reason}`)
    assert.equal(await row.locator('td').first().innerText(), show(count))
  }
  const answer = await page.evaluate(async () => (await fetch('status')).json())
  assert.equal(answer.totals.requests_merged, counted.get('requests_total.outcome.merged'))
  const { observed } = answer.totals
  assert.equal(observed.merged, counted.get('observed_requests_total.outcome.merged'))
  for (const [told, counter] of [['bytes_located', 'bytes_total.outcome.located'], ['bytes_between_nodes', 'bytes_between_nodes_total']]) {
    assert.equal(observed[told], counted.get(`observed_${counter}`), told)
  }
  for (const node of answer.nodes) {
    for (const [told, counter] of [['batches', 'batches'], ['batch_requests', 'batch_requests'], ['batch_operations', 'batch_operations'], ['batch_bytes', 'batch_bytes']]) {
      assert.equal(node[told], counted.get(`${counter}_total.upstream.${node.upstream}`), `${told} of ${node.name}`)
    }
    for (const gauge of ['held_requests', 'held_operations', 'held_bytes', 'in_flight_batches', 'in_flight_operations', 'in_flight_bytes']) {
      assert.equal(node[gauge], 0, `${gauge} of ${node.name}`)
    }
  }
  assert.equal(answer.totals.memory_bytes, 0)
  assert.equal(answer.totals.memory_limit_bytes, counted.get('memory_limit_bytes'))
})
