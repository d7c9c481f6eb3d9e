'use strict'
// axe-core's rules for pages that everybody can use.

const assert = require('node:assert/strict')
const axe = require('axe-core')

const GRAVE = ['serious', 'critical']

/// Fails with each serious or critical finding, and where it is in the page.
exports.checkAccessibility = async function checkAccessibility (page) {
  await page.evaluate(axe.source)
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run())
  const grave = violations.filter(({ impact }) => GRAVE.includes(impact))
  assert.deepEqual(grave.map(describe), [])
  assert.notEqual(passes.length, 0, 'no rule of axe-core had anything to look at')
}

function describe ({ id, impact, help, nodes }) {
  return `${impact}: ${help} (${id}) at ${nodes.map(({ target }) => target.join(' ')).join(', ')}`
}
