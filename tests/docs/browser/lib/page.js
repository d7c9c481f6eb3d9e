'use strict'
// A page under test. The test fails if the page reports an error, violates its content security policy, or sends a
// request to another server.

const assert = require('node:assert/strict')
const { browser } = require('./chromium')

/// Opens the page in a new window until the test ends.
exports.open = async function open (test, url, { width = 1280, height = 800, dark = false } = {}) {
  const context = await (await browser()).newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'UTC'
  })
  const complaints = []
  const page = await context.newPage()
  await watch(page, new URL(url).origin, complaints)
  test.after(async () => {
    await context.close()
    assert.deepEqual(complaints, [], 'the page reported errors, or sent requests to another server')
  })
  const answer = await page.goto(url)
  assert.equal(answer.status(), 200, url)
  return page
}

async function watch (page, own, complaints) {
  const isElsewhere = (url) => url.origin !== own
  await page.route(isElsewhere, (route) => {
    complaints.push(`asked for ${route.request().url()}`)
    return route.abort()
  })
  await page.routeWebSocket(isElsewhere, (socket) => complaints.push(`asked for ${socket.url()}`))
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
}

/// Waits until the explorer's page has finished the simulation.
exports.simulated = (page) => page.locator('#simulated', { hasText: 'virtual seconds' }).waitFor()
