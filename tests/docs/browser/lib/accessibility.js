'use strict'
// Accessibility checks with axe-core's rules.

const assert = require('node:assert/strict')
const axe = require('axe-core')

const GRAVE = ['serious', 'critical']

/// Fails if the page has serious or critical violations, and lists each with its elements.
exports.checkAccessibility = async function checkAccessibility (page) {
  await page.evaluate(axe.source)
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run())
  const grave = violations.filter(({ impact }) => GRAVE.includes(impact))
  assert.deepEqual(grave.map(describe), [])
  assert.notEqual(passes.length, 0, 'no rule of axe-core applied to the page')
}

function describe ({ id, impact, help, nodes }) {
  return `${impact}: ${help} (${id}) at ${nodes.map(({ target }) => target.join(' ')).join(', ')}`
}
