// The stage's side of live_component.js.

export class Server {
  constructor() {
    this.onAnswer = () => {};
    this.listening = new AbortController();
    const { signal } = this.listening;
    window.addEventListener("flash-attention-answer", (event) => this.onAnswer(event.detail), { signal });
  }

  ask(question) {
    window.dispatchEvent(new CustomEvent("flash-attention-ask", { detail: question }));
  }

  destroy() {
    this.listening.abort();
  }
}
