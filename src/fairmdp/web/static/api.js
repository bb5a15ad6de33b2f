// Questions to the server: one line of JSON per message, the last one is the answer.

const page = crypto.randomUUID();

export class Refused extends Error {} // the server says why
export class Lost extends Error {} // the server does not answer, or is another one by now
export class Stale extends Error {} // a newer question has taken its place

async function reach(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw new Stale();
    throw new Lost("gone");
  }
  if (response.status === 403 || response.status === 421) throw new Lost("restarted");
  if (!response.ok) {
    const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Refused(body.error);
  }
  return response;
}

export async function start() {
  return (await reach("api/start")).json();
}

export async function sendFile(file) {
  const response = await reach(`api/upload?name=${encodeURIComponent(file.name)}`, {
    method: "POST", headers: { "content-type": "application/octet-stream" }, body: file,
  });
  return (await response.json()).handle;
}

export async function ask(question, { progress = () => {}, signal } = {}) {
  const response = await reach("api/ask", {
    method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify({ page, ...question }),
  });
  try {
    for await (const message of messages(response.body)) {
      if (message.progress) progress(message.progress);
      if (message.error) throw new Refused(message.error);
      if ("stale" in message) throw new Stale();
      if (message.answer) return message.answer;
    }
  } catch (error) {
    if (error instanceof Refused || error instanceof Stale) throw error;
    if (error.name === "AbortError") throw new Stale();
  }
  throw new Lost("gone");
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
