'use strict'
// The explorer with what a real filter under load tells of itself.

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { serveExplorer, simulated } = require('../lib/explorer')
const { open } = require('../lib/page')

test('it takes state, sample and configuration of the filter', async (t) => {
  const page = await open(t, await serveExplorer(t, process.env.PAGE_URL))
  await simulated(page)
  await page.getByText('From a running filter').click()
  await page.getByRole('button', { name: 'Load state' }).click()
  await page.getByText('sample: loaded').waitFor()
  await page.getByText('status: the configuration is the filter’s').waitFor()
  await page.getByText('running filter: 3 nodes').waitFor()
  // The clients write one to seven documents each time, all of which are routed.
  await page.locator('#verdict', { hasText: /^[1-7] operations?, .*leave in [1-3] batch(es)?\.$/ }).waitFor()
  const upstreams = await page.locator('#nodes tbody tr td:nth-of-type(1)').allInnerTexts()
  assert.ok(upstreams.length > 0 && upstreams.every((upstream) => /^es-[0-2]$/.test(upstream)), upstreams.join())
})
