'use strict'
// Pictures of pages, small enough to be kept beside a README.

const assert = require('node:assert/strict')
const { join, resolve } = require('node:path')

const FOLDER = resolve(__dirname, '../../../.run/browser')
const MOST_BYTES = 250_000

/// Takes a picture of the window, or of all that can be scrolled to, for .run/browser/NAME.png; returns its path.
exports.picture = async function picture (page, name, { fullPage = false } = {}) {
  const path = join(FOLDER, `${name}.png`)
  const bytes = await page.screenshot({ path, fullPage, animations: 'disabled', caret: 'hide' })
  assert.ok(bytes.length <= MOST_BYTES, `${path} has ${bytes.length} bytes, more than ${MOST_BYTES}`)
  return path
}
