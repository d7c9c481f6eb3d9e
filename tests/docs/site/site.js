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

// The menu of mdBook can have only pages.
const menu = document.querySelector('#mdbook-sidebar ol.chapter')
for (const [folder, name] of [['explorer', 'The explorer, live'], ['api', 'Documentation of core']]) {
  const link = document.createElement('a')
  link.href = `${path_to_root}${folder}/index.html` // a variable of mdBook's pages
  link.textContent = name
  const item = document.createElement('li')
  item.className = 'chapter-item'
  item.append(link)
  menu.append(item)
}

// Long lines scroll.
for (const wide of document.querySelectorAll('pre > code, .table-wrapper')) wide.tabIndex = 0
