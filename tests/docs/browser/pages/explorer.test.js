'use strict'
// Tests of the explorer, with its own sample and with dropped files.

const assert = require('node:assert/strict')
const { once } = require('node:events')
const { readFileSync } = require('node:fs')
const { createServer } = require('node:http')
const { test } = require('node:test')
const { gzipSync } = require('node:zlib')
const { checkAccessibility } = require('../lib/accessibility')
const { drop } = require('../lib/drop')
const { open, simulated } = require('../lib/page')
const { picture } = require('../lib/picture')
const { serve, serveExplorer } = require('../lib/serve')

const { EXPLORER, EXPECTED, EXPORTED, STATE, BODY, BROKEN } = process.env
// The native engine's results for these files.
const { configuration, explanation, forwarding, broken } = JSON.parse(readFileSync(EXPECTED, 'utf8'))
const count = (number) => number.toLocaleString('en')
const percent = (share) => `${Math.round(share * 100)} %`

/// Opens the page and waits until it has finished the simulation.
async function explorer (t, options) {
  const page = await open(t, await serve(EXPLORER), options)
  await simulated(page)
  return page
}

/// Waits until the page shows this text about the request.
const says = (page, text) => page.locator('#verdict', { hasText: text }).waitFor()

/// Returns the cells of a table, row by row.
const rows = (page, id) => page.locator(`#${id} tbody tr`).evaluateAll((rows) =>
  rows.map((row) => [...row.cells].map((cell) => cell.textContent)))

test('the page shows its sample on start', async (t) => {
  const page = await explorer(t, { width: 1100, height: 1000 })
  await says(page, '600 operations, 72.1 kB, leave in 3 batches.')
  assert.equal((await rows(page, 'nodes')).length, 3)
  await checkAccessibility(page)
  await picture(page, 'explorer')
})

test('dropped files give the results of the native engine', async (t) => {
  const page = await explorer(t)
  await drop(page, '#drop', STATE, BODY)
  await says(page, `${count(explanation.operations)} operations,`)
  await simulated(page)
  const of = (total) => [total.node?.name ?? 'any (coordinator)', total.upstream, count(total.operations)]
  assert.deepEqual((await rows(page, 'nodes')).map(([node, upstream, , number]) => [node, upstream, number]), explanation.nodes.map(of))
  const shards = await rows(page, 'shards')
  assert.deepEqual(
    shards.map(([index, shard, node, , number]) => [index, shard, node, number]),
    explanation.shards.map(({ index, shard, node, operations }) => [index, `${shard}`, node.name, count(operations)]))
  assert.match(await page.locator('#crossing').innerText(), new RegExp(`^${percent(forwarding.without.share)} → ${percent(forwarding.with.share)}`))
  const listed = await rows(page, 'operations')
  explanation.listed.slice(0, 50).forEach((operation, number) => {
    const [position, line, action, , id, shard] = listed[number]
    const { choice } = operation
    assert.deepEqual(
      [position, line, action, id, shard],
      [`${operation.position}`, `${operation.line}`, operation.action, operation.id ?? `none (${operation.missing_id})`, choice ? `${choice.shard}` : '–'])
  })
})

test('a compressed body gives the same result', async (t) => {
  const page = await explorer(t)
  const files = [{ name: 'body.gz', mimeType: 'application/gzip', buffer: gzipSync(readFileSync(BODY)) }]
  await page.locator('#state-file').setInputFiles(STATE)
  await page.getByText('state.json: 4 nodes').waitFor()
  await page.locator('#body-file').setInputFiles(files)
  await says(page, `${count(explanation.operations)} operations,`)
})

test('the page shows why a request passes through, and why a state is invalid', async (t) => {
  const page = await explorer(t)
  await drop(page, '#drop', BROKEN)
  const { reason, text, line } = broken.because
  await says(page, `Passes through (${reason}). ${text} Line ${count(line)},`)
  await checkAccessibility(page)
  await page.getByText('Paste').first().click()
  await page.getByLabel('The whole answer to').fill('{"nodes":{}}')
  await page.getByRole('button', { name: 'Use this state' }).click()
  await page.getByRole('alert').filter({ hasText: 'missing field' }).waitFor()
})

test('the page can be used with only the keyboard', async (t) => {
  const page = await explorer(t)
  // Press the tab key until the focus reaches the element.
  const reach = async (what) => {
    for (let steps = 0; steps < 150; steps++) {
      await page.keyboard.press('Tab')
      const found = await page.evaluate(() => `${document.activeElement.textContent} ${document.activeElement.getAttribute('aria-label')} ${document.activeElement.name}`)
      if (found.includes(what)) return
    }
    assert.fail(`the tab key does not reach ${what}`)
  }
  await reach('Skip to the figures')
  await page.keyboard.press('Enter')
  await reach('rate')
  await page.keyboard.press('Control+A')
  await page.keyboard.type('50')
  await page.keyboard.press('Enter')
  await page.locator('#batch', { hasText: 'at 50 requests/s' }).waitFor()
  await reach('Why operation 0')
  await page.keyboard.press('Enter')
  const why = page.locator('tr.why')
  await why.getByText('Hash of the id').waitFor()
  const [{ hash, modulus, shard }] = await why.getByText('Shard:').evaluateAll((steps) => steps.map(({ textContent }) => {
    const [, hash, modulus] = /(-?\d+) mod (\d+)/.exec(textContent).map(Number)
    return { hash, modulus, shard: Number(/shard (\d+)/.exec(textContent)[1]) }
  }))
  assert.equal(Math.floor((((hash % modulus) + modulus) % modulus) / 128), shard)
  await page.keyboard.press('Enter')
  await why.waitFor({ state: 'detached' })
  await reach('Next')
  await page.keyboard.press('Enter')
  await page.getByText('Page 2 of 12').waitFor()
})

test('operations can be searched', async (t) => {
  const page = await explorer(t)
  await page.getByLabel('Search operations').fill('o-176')
  await page.getByText('1 operation', { exact: true }).waitFor()
  assert.deepEqual((await rows(page, 'operations')).map((row) => row[4]), ['o-176'])
})

for (const [name, options] of Object.entries({ dark: { dark: true }, phone: { width: 360, height: 740 }, 'dark-phone': { width: 360, height: 740, dark: true } })) {
  test(`the page is legible and fits: ${name}`, async (t) => {
    const page = await explorer(t, options)
    await page.locator('#operations button').first().click()
    await checkAccessibility(page)
    const { scrollWidth, clientWidth } = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement
      return { scrollWidth, clientWidth }
    })
    assert.ok(scrollWidth <= clientWidth, `${scrollWidth} wide in ${clientWidth}`)
    await picture(page, `explorer-${name}`)
  })
}

test('the page loads the data of a running filter', async (t) => {
  const told = { state: readFileSync(EXPORTED), sample: readFileSync(BODY), status: JSON.stringify({ configuration }) }
  const filter = createServer(({ url }, response) => response.end(told[url.replace('/admin/', '')]))
  await once(filter.listen(0, '127.0.0.1'), 'listening')
  t.after(() => filter.close())
  const page = await open(t, await serveExplorer(`http://127.0.0.1:${filter.address().port}/admin/`))
  await simulated(page)
  await page.getByText('From a running filter').click()
  await page.getByRole('button', { name: 'Load state' }).click()
  await page.getByText('sample: loaded').waitFor()
  await page.getByText('status: the configuration is the filter’s').waitFor()
  await page.getByText('running filter: 4 nodes').waitFor()
  await says(page, `${count(explanation.operations)} operations,`)
})
