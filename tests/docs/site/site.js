// What mdBook's pages lack for keyboards and screen readers.
'use strict'

const toggle = document.getElementById('mdbook-sidebar-toggle')
toggle.setAttribute('role', 'button')
toggle.tabIndex = 0
toggle.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' && event.key !== ' ') return
  event.preventDefault()
  toggle.click()
})

// Long lines scroll.
for (const wide of document.querySelectorAll('pre > code, .table-wrapper')) wide.tabIndex = 0
