'use strict'
// Tests of the explorer with the data of a real filter under load.

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { open, simulated } = require('../lib/page')
const { serveExplorer } = require('../lib/serve')

test('the explorer loads the state, the sample and the configuration of the filter', async (t) => {
  const page = await open(t, await serveExplorer(process.env.PAGE_URL))
  await simulated(page)
  await page.getByText('From a running filter').click()
  await page.getByRole('button', { name: 'Load state' }).click()
  await page.getByText('sample: loaded').waitFor()
  await page.getByText('status: the configuration is the filter’s').waitFor()
  await page.getByText('running filter: 3 nodes').waitFor()
  // Each request of the clients has one to seven documents, all of which are routed.
  await page.locator('#verdict', { hasText: /^(1 operation, .*leaves|[2-7] operations, .*leave) in (one batch|[23] batches)\.$/ }).waitFor()
  const upstreams = await page.locator('#nodes tbody tr td:nth-of-type(1)').allInnerTexts()
  assert.ok(upstreams.length > 0 && upstreams.every((upstream) => /^es-[0-2]$/.test(upstream)), upstreams.join())
})
