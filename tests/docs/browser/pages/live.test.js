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
  // Before the state was known, requests passed through for another reason.
  assert.deepEqual(reasons.filter((reason) => reason !== 'no_state').sort(), ['parameter', 'pipeline'])
  assert.equal(await page.locator('#pipelines tbody tr').innerText(), 'nothing\tstay as they are')
  assert.equal(await page.locator('#notices li').count(), 0)
  await checkAccessibility(page)
  await picture(page, 'live', { fullPage: true })
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
  await picture(page, 'live-phone', { fullPage: true })
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
