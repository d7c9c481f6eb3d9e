'use strict'
// Tests of the test library itself, with a minimal page.

const assert = require('node:assert/strict')
const { readFileSync, statSync } = require('node:fs')
const { join } = require('node:path')
const { test } = require('node:test')
const { checkAccessibility } = require('../lib/accessibility')
const { drop } = require('../lib/drop')
const { open } = require('../lib/page')
const { picture } = require('../lib/picture')
const { serve } = require('../lib/serve')

const FOLDER = join(__dirname, 'first')

test('a page gets dropped files', async (t) => {
  const page = await open(t, await serve(FOLDER))
  await drop(page, 'main', join(FOLDER, 'page.js'))
  const expected = `page.js: ${readFileSync(join(FOLDER, 'page.js'), 'utf8').length} characters`
  await page.getByRole('status').filter({ hasText: expected }).waitFor()
  await checkAccessibility(page)
  assert.ok(statSync(await picture(page, 'first')).size > 1000)
})

test('errors of a page are detected', async (t) => {
  const complaints = await complaintsOf(t, async (page) => {
    const thrown = page.waitForEvent('pageerror')
    await page.evaluate(async () => {
      console.error('an error')
      await fetch('/').catch(() => {})
      const image = new Image()
      image.onerror = () => { throw new Error('an exception') }
      image.src = 'http://example.org/picture.png'
    })
    await thrown
  })
  for (const part of ['an error', 'an exception', 'asked for http://example.org/picture.png', 'connect-src']) {
    assert.match(complaints, new RegExp(part))
  }
})

test('accessibility violations of a page are detected', async (t) => {
  const page = await open(t, await serve(FOLDER))
  await page.evaluate(() => document.querySelector('main').append(document.createElement('button')))
  await assert.rejects(checkAccessibility(page), /critical: Buttons must have discernible text \(button-name\) at button/)
})

/// Returns the error with which the test of a page would fail.
async function complaintsOf (t, misbehave) {
  const ends = []
  const page = await open({ after: (end) => ends.push(end) }, await serve(FOLDER))
  await misbehave(page)
  const [failure] = await Promise.all(ends.map((end) => end().catch((error) => error)))
  return String(failure.message)
}
