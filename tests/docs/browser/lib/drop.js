'use strict'
// Drops files on a page, as from the desktop.

const { readFileSync } = require('node:fs')
const { basename } = require('node:path')

/// Drops the files at these paths on an element in one operation.
exports.drop = async function drop (page, selector, ...paths) {
  const files = paths.map((path) => ({ name: basename(path), base64: readFileSync(path, 'base64') }))
  const dataTransfer = await page.evaluateHandle((files) => {
    const transfer = new DataTransfer()
    for (const { name, base64 } of files) {
      transfer.items.add(new File([Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0))], name))
    }
    return transfer
  }, files)
  for (const event of ['dragenter', 'dragover', 'drop']) await page.dispatchEvent(selector, event, { dataTransfer })
}
