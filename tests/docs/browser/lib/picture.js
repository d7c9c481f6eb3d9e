'use strict'
// Screenshots of pages, small enough to keep beside a README.

const assert = require('node:assert/strict')
const { join, resolve } = require('node:path')

const FOLDER = resolve(__dirname, '../../../../.run/browser')
const MOST_BYTES = 250_000

/// Saves a screenshot of the window as .run/browser/NAME.png, and returns its path.
exports.picture = async function picture (page, name) {
  const path = join(FOLDER, `${name}.png`)
  const bytes = await page.screenshot({ path, animations: 'disabled', caret: 'hide' })
  assert.ok(bytes.length <= MOST_BYTES, `${path} has ${bytes.length} bytes, more than ${MOST_BYTES}`)
  return path
}
