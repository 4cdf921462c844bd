// A browser starts no worker for a page that it opened from a file, and the search is one.
// There, a hidden frame runs the worker's script instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      this.started = new Promise((resolve, reject) => {
        script.onload = () => resolve(inner);
        script.onerror = reject;
      });
      script.src = url;
      inner.document.body.append(script);
    }

    postMessage(data) {
      this.started.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
