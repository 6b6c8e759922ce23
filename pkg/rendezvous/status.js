'use strict'
// Throughput is an average of ten seconds, but a new connection must be shown sooner.
const pause = 2000, timeout = 10000
const notice = document.getElementById('notice')
// A URL with a password in it cannot be fetched; the browser knows it anyway.
const url = location.origin + location.pathname
let seen = new Date()

// refresh returns whether to go on.
async function refresh() {
  if (document.hidden) return true
  try {
    const answer = await fetch(url, { headers: { Accept: 'text/html' }, cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(timeout) })
    if (answer.status === 401) {
      notice.textContent = 'The token is no longer valid. Reload the page to give another.'
      return false
    }
    if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText)
    const old = document.querySelector('main')
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main')
    // What has not changed stays selected.
    if (fresh.innerHTML !== old.innerHTML) old.replaceWith(fresh)
    seen = new Date()
    notice.textContent = ''
  } catch (error) {
    notice.textContent = 'Nothing heard since ' + seen.toLocaleTimeString() + ' (' + error.message + '); trying again.'
  }
  return true
}

async function routineRefresh() {
  do await new Promise(done => setTimeout(done, pause))
  while (await refresh())
}
routineRefresh()
