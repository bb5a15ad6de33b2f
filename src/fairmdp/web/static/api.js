// Questions to the server: one line of JSON per message, the last one is the answer.

const page = crypto.randomUUID();

export class Refused extends Error {} // the server says why
export class Lost extends Error {} // the server does not answer, or is another one by now
export class Stale extends Error {} // a newer question has taken its place

// What has gone wrong, in the page's own terms.
function meant(error) {
  if (error instanceof Refused || error instanceof Lost || error instanceof Stale) return error;
  return error.name === "AbortError" ? new Stale() : new Lost("gone");
}

async function checked(response) {
  if (response.status === 403 || response.status === 421) throw new Lost("restarted");
  if (!response.ok) {
    const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Refused(body.error);
  }
  return response;
}

async function json(path, options = {}) {
  try {
    return await (await checked(await fetch(path, { redirect: "error", ...options }))).json();
  } catch (error) {
    throw meant(error);
  }
}

export function start() {
  return json("api/start");
}

export async function sendFile(file) {
  const name = encodeURIComponent(file.name);
  return (await json(`api/upload?name=${name}`, {
    method: "POST", headers: { "content-type": "application/octet-stream" }, body: file,
  })).handle;
}

export async function ask(question, { progress = () => {}, signal } = {}) {
  try {
    const response = await checked(await fetch("api/ask", { method: "POST", redirect: "error", signal,
      headers: { "content-type": "application/json" }, body: JSON.stringify({ page, ...question }) }));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Lost("gone");
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const message of lines.map((line) => JSON.parse(line))) {
        if (message.progress) progress(message.progress);
        if (message.error) throw new Refused(message.error);
        if ("stale" in message) throw new Stale();
        if (message.answer) return message.answer;
      }
    }
  } catch (error) {
    throw meant(error);
  }
}
