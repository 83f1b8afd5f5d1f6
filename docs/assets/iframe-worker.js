/* Search runs in a web worker, which browsers refuse to a page opened from a folder. There a hidden frame does its work. */
(() => {
  if (location.protocol !== "file:") return
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.frame = frame
      frame.contentWindow.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(done => {
        const script = frame.contentDocument.createElement("script")
        script.src = url
        script.onload = done
        frame.contentDocument.body.append(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
})()
