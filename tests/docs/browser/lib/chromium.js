'use strict'
// The fetched Chromium, shared by all tests of a file.

const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join, resolve } = require('node:path')
const { after } = require('node:test')
const { chromium } = require('playwright-core')

const TOOLS = resolve(__dirname, '../../../../.tools/browser')

let started

exports.browser = async () => (await (started ??= start())).browser

async function start () {
  const home = mkdtempSync(join(tmpdir(), 'bulk-reshuffle-browser-'))
  const browser = await chromium.launch({
    executablePath: join(TOOLS, 'chromium'),
    args: ['--disable-gpu', '--disable-quic', '--font-render-hinting=none'],
    env: {
      HOME: home,
      LD_LIBRARY_PATH: join(TOOLS, 'lib'),
      FONTCONFIG_FILE: resolve(__dirname, '../fonts.conf')
    }
  })
  return { browser, home }
}

// Registered at the top level, because a hook that is registered during a test belongs to that test.
after(async () => {
  if (!started) return
  const { browser, home } = await started
  await browser.close()
  rmSync(home, { recursive: true, force: true })
})
