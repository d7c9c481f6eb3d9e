'use strict'
// Tests of the site of all pages, as `make site` builds it.

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { checkAccessibility } = require('../lib/accessibility')
const { open, simulated } = require('../lib/page')
const { picture } = require('../lib/picture')
const { serve } = require('../lib/serve')

const { SITE } = process.env
// With the widest tables.
const WIDE = ['filter/', 'envoy/operations.html', 'istio/', 'tests/', 'examples/writers.html']
const PAGES = ['', 'envoy/own-cluster.html', 'examples/explorer/', 'k6/']
const WINDOWS = {
  desktop: { width: 1280, height: 800 },
  'desktop-dark': { width: 1280, height: 800, dark: true },
  phone: { width: 390, height: 844 },
  'phone-dark': { width: 390, height: 844, dark: true }
}

/// Fails if a window would have to scroll sideways.
async function checkWidth (page, path) {
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - globalThis.innerWidth)
  assert.ok(wide <= 0, `${path} is ${wide} pixels wider than the window`)
}

for (const [name, options] of Object.entries(WINDOWS)) {
  test(`pages are accessible and fit into the window: ${name}`, async (t) => {
    const address = await serve(SITE)
    for (const path of PAGES) {
      const page = await open(t, address + path, options)
      assert.notEqual((await page.locator('main h1').first().innerText()).trim(), '', path)
      await checkWidth(page, path)
      const isDark = await page.evaluate(() => document.documentElement.classList.contains('navy'))
      assert.equal(isDark, options.dark ?? false, path)
      await checkAccessibility(page)
      if (path === '') await picture(page, `site-${name}`)
      await page.close()
    }
  })
}

test('pages with wide tables fit into a phone', async (t) => {
  const address = await serve(SITE)
  for (const path of WIDE) {
    const page = await open(t, address + path, WINDOWS.phone)
    await checkWidth(page, path)
    await page.close()
  }
})

test('a search finds a setting on its page', async (t) => {
  const page = await open(t, await serve(SITE))
  await page.keyboard.press('s')
  await page.locator('#mdbook-searchbar').pressSequentially('hold.late_after')
  const found = page.locator('#mdbook-searchresults a', { hasText: 'Slow shards' }).first()
  await found.click()
  await page.waitForURL(/filter\/index\.html/)
  await page.locator('mark', { hasText: 'hold.late_after' }).first().waitFor()
})

test('the menu leads to every part', async (t) => {
  const page = await open(t, await serve(SITE), WINDOWS.desktop)
  const parts = await page.locator('#mdbook-sidebar .part-title').allInnerTexts()
  assert.deepEqual(parts, ['Operators', 'Developers of clients', 'Evidence', 'Contributors'])
  await page.locator('#mdbook-sidebar a', { hasText: 'Your own cluster, step by step' }).click()
  await page.waitForURL(/envoy\/own-cluster\.html$/)
})

test('the menu and a page lead to the explorer and to the documentation of core', async (t) => {
  const address = await serve(SITE)
  const page = await open(t, `${address}examples/explorer/`)
  for (const name of ['Open the explorer', 'The explorer, live']) {
    await page.getByRole('link', { name }).click()
    await simulated(page)
    await page.goto(`${address}CONTRIBUTING.html`)
  }
  for (const within of ['main', '#mdbook-sidebar']) {
    await page.goto(`${address}CONTRIBUTING.html`)
    await page.locator(within).getByRole('link', { name: 'Documentation of core' }).click()
    await page.getByRole('heading', { name: 'Crate bulk_reshuffle' }).waitFor()
  }
})
