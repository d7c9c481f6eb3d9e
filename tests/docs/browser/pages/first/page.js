const status = document.querySelector('[role=status]')
addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', async (event) => {
  event.preventDefault()
  const [file] = event.dataTransfer.files
  status.textContent = `${file.name}: ${(await file.text()).length} characters`
})
