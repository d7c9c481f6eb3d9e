'use strict'
// Tests of the live page while clients write.

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { checkAccessibility } = require('../lib/accessibility')
const { open } = require('../lib/page')
const { picture } = require('../lib/picture')

const URL = process.env.PAGE_URL

/// Waits until the page shows rates, and some history in its charts.
async function settled (page) {
  await page.getByText('Refreshed every 2 s').waitFor()
  await page.waitForFunction(() => document.querySelector('#tiles polyline').getAttribute('points').split(' ').length > 6)
}

test('the page shows held requests, requests in flight and batch sizes for each node', async (t) => {
  const page = await open(t, URL, { width: 1200, height: 1000 })
  await settled(page)
  const rows = page.locator('#nodes tbody tr')
  const texts = await rows.allInnerTexts()
  assert.equal(texts.length, 4)
  for (const [place, name] of ['es-0', 'es-1', 'es-2', 'es (coordinator)'].entries()) {
    assert.ok(texts[place].startsWith(name), texts[place])
  }
  const cell = (row, title) => rows.nth(row).locator(`td[data-title="${title}"]`).innerText()
  for (const node of [0, 1, 2]) {
    assert.ok(parseFloat((await cell(node, 'Batches/s')).replace(',', '')) > 1)
    assert.ok(parseFloat(await cell(node, 'Requests per batch')) > 1)
    assert.match(await cell(node, 'Held for'), /^[\d.]+ ms$/)
    assert.match(await cell(node, 'Answered in'), /^[\d.]+ (ms|s)$/)
  }
  const words = await page.locator('#passed tbody th').allInnerTexts()
  assert.ok(words.some((words) => words.includes('pipeline') && words.includes('not all nodes return items in order')))
  const reasons = words.map((words) => words.split('\n')[0])
  // Before the state had the indices, requests passed through for other reasons.
  assert.deepEqual(reasons.filter((reason) => !['no_state', 'unknown_index'].includes(reason)).sort(), ['observed', 'parameter', 'pipeline'])
  assert.equal(await page.locator('#pipelines tbody tr').innerText(), 'nothing\tstay as they are')
  assert.equal(await page.locator('#notices li').count(), 0)
  await checkAccessibility(page)
  await picture(page, 'live')
})

test('the page compares observed requests with what the filter would do', async (t) => {
  const page = await open(t, URL)
  await settled(page)
  const cells = async (figure) => page.locator('#observed tbody tr', { hasText: figure }).locator('td').allInnerTexts()
  const [requests, batches] = (await cells('Requests to nodes, per second')).map((text) => parseFloat(text.replace(',', '')))
  // Each request would be split for three nodes at most.
  assert.ok(requests > 0 && batches > 0 && batches < 3 * requests, `${requests} ${batches}`)
  const [arrived, wouldArrive] = await cells('Bytes that arrive at their node')
  // Envoy chooses one of three nodes.
  assert.ok(parseFloat(arrived) > 5 && parseFloat(arrived) < 80, arrived)
  assert.equal(wouldArrive, '100 %')
  const [between, wouldBeBetween] = await cells('Bytes between nodes, per second')
  assert.ok(parseFloat(between) > 0, between)
  assert.equal(wouldBeBetween, '0 B')
  const nodes = await page.locator('#observed-nodes tbody th').allInnerTexts()
  assert.deepEqual(nodes.sort(), ['es-0', 'es-1', 'es-2'])
  // Each node has a zone of its own, and Envoy has none.
  const [betweenZones, wouldBeBetweenZones] = await cells('Bytes between zones, per second')
  assert.ok(parseFloat(betweenZones) > 0, betweenZones)
  assert.equal(wouldBeBetweenZones, '0 B')
})

test('the page lists who writes how', async (t) => {
  const page = await open(t, URL)
  await settled(page)
  const rows = page.locator('#writers tbody tr')
  const texts = await rows.first().locator('td').allInnerTexts()
  assert.equal(texts[0], 'watched')
  const [requests, operations, mean] = texts.slice(1, 4).map((text) => parseFloat(text.replace(',', '')))
  assert.ok(requests > 0 && operations > requests && mean > 1, texts.join(' '))
  assert.deepEqual(texts.slice(5, 8).map(parseFloat), [0, 0, 0])
  await page.getByLabel('The ten with the').selectOption('most bytes per request')
  await rows.first().waitFor()
  await checkAccessibility(page)
})

test('the cost between zones follows the price', async (t) => {
  const page = await open(t, URL)
  let begin
  await page.route('**/status', async (route) => {
    const status = await (await route.fetch()).json()
    begin ??= status.unix_milliseconds - 1000
    // 1 GB a second, of which the filter would leave a third.
    const bytes = 1e6 * (status.unix_milliseconds - begin)
    Object.assign(status.totals.observed, { bytes_between_zones: bytes, bytes_to_other_zones: bytes / 3 })
    await route.fulfill({ json: status })
  })
  // The first answers are real.
  const cost = page.locator('#observed tbody tr', { hasText: 'Cost between zones' })
  await cost.getByText('51,840').waitFor()
  assert.deepEqual(await cost.locator('td').allInnerTexts(), ['51,840', '17,280'])
  await page.getByLabel('Price of a GB between zones').fill('0.01')
  await cost.getByText('25,920').waitFor()
  assert.ok((await page.locator('#observed-hint').innerText()).includes('node.locality.zone'))
  await checkAccessibility(page)
})

test('the numbers refresh automatically until the page is paused', async (t) => {
  const page = await open(t, URL)
  await settled(page)
  const first = await page.locator('#passed tbody td').first().innerText()
  await page.waitForFunction((first) => document.querySelector('#passed tbody td').innerText !== first, first)
  // Use the keyboard instead of the mouse.
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByText('Paused').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Pause' }).getAttribute('aria-pressed'), 'true')
  await page.keyboard.press('Space')
  await page.getByText('Refreshed every 2 s').waitFor()
})

test('the page fits on a phone, in dark mode', async (t) => {
  const page = await open(t, URL, { width: 360, height: 740, dark: true })
  await settled(page)
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
  assert.ok(overflow <= 0, `${overflow} pixels too wide`)
  await checkAccessibility(page)
  await picture(page, 'live-phone')
})

test('the page shows the configuration without secrets', async (t) => {
  const page = await open(t, URL)
  await page.getByText('Refreshed every 2 s').waitFor()
  await page.getByText('Active configuration').click()
  const configuration = JSON.parse(await page.locator('#configuration').innerText())
  assert.deepEqual(configuration.credentials, { authorization: '***' })
  assert.equal(configuration.hold.interval, '50ms')
  assert.ok(!(await page.content()).includes('aHVzaDpodXNo'))
})
