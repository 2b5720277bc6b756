// The page is one text without anything from elsewhere: its policy forbids every other source.
#include "http/api/routes.h"

#include <string>
#include <utility>

namespace kvd::http {
namespace {

constexpr const char* kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kvd</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
         color: #222; background: #fff; }
  h1 { font-size: 1.2rem; }
  #log > div { white-space: pre-wrap; padding: .5rem .75rem; margin: .5rem 0; border-radius: .4rem; }
  .user { background: #eef3f8; }
  .assistant { background: #f5f5f2; }
  .note { color: #666; font-size: .85rem; }
  textarea { width: 100%; box-sizing: border-box; font: inherit; padding: .5rem; }
  input { font: inherit; padding: .25rem .5rem; }
  button { font: inherit; padding: .25rem 1rem; }
</style>
</head>
<body>
<h1>kvd: <span id="model">the model is loading</span></h1>
<div id="log" aria-live="polite"></div>
<form id="form">
  <label for="text">Message</label>
  <textarea id="text" rows="3" autofocus></textarea>
  <p><button id="send">Send</button> <button type="button" id="stop" hidden>Stop</button>
     <label>Key <input id="key" type="password" size="20" autocomplete="off"></label></p>
</form>
<p class="note" id="note"></p>
<script>
const byId = (id) => document.getElementById(id);
const messages = [];
let controller = null;
const headers = () => {
  const key = byId('key').value;
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: 'Bearer ' + key } : {}) };
};
const show = (role, text) => {
  const entry = document.createElement('div');
  entry.className = role;
  entry.textContent = text;
  byId('log').append(entry);
  return entry;
};
const showModel = async () => {
  const reply = await fetch('v1/models', { headers: headers() });
  const body = await reply.json();
  byId('model').textContent = reply.ok ? body.data[0].id : body.error.message;
  if (reply.status === 503) setTimeout(showModel, 500);
};
const answer = async () => {
  const entry = show('assistant', '');
  controller = new AbortController();
  byId('stop').hidden = false;
  let text = '';
  try {
    const reply = await fetch('v1/chat/completions', {
      method: 'POST', headers: headers(), signal: controller.signal,
      body: JSON.stringify({ messages, stream: true, timings_per_token: false }) });
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += value;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith('data: ') || event === 'data: [DONE]') continue;
        const data = JSON.parse(event.slice(6));
        if (data.error) throw new Error(data.error.message);
        const delta = data.choices[0]?.delta;
        text += delta?.content ?? '';
        entry.textContent = text;
        if (data.timings) {
          byId('note').textContent = `${data.timings.cache_n} tokens of the prompt were cached, ` +
            `${data.timings.prompt_n} computed; ` +
            `${data.timings.predicted_per_second.toFixed(1)} tokens a second`;
        }
      }
    }
  } catch (error) {
    byId('note').textContent = error.message;
  }
  byId('stop').hidden = true;
  messages.push({ role: 'assistant', content: text });
};
byId('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = byId('text').value.trim();
  if (!text || !byId('stop').hidden) return;
  messages.push({ role: 'user', content: text });
  show('user', text);
  byId('text').value = '';
  answer();
});
byId('text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey) {
    event.preventDefault();
    byId('form').requestSubmit();
  }
});
byId('stop').addEventListener('click', () => controller?.abort());
byId('key').addEventListener('change', showModel);
showModel();
</script>
</body>
</html>
)html";

// What browsers ask for beside the page.
struct Asset {
  const char* path;
  const char* content_type;
  const char* body;
};
constexpr Asset kAssets[] = {
    {"/manifest.webmanifest", "application/manifest+json",
     R"({"name":"kvd","short_name":"kvd","start_url":"/","display":"standalone"})"},
    {"/sw.js", "text/javascript; charset=utf-8", "// The page needs no service worker.\n"},
    {"/_app/version.json", "application/json", "{\"version\":\"" KVD_VERSION "\"}"},
};

Await<void> SendAsset(const Asset& asset, Responder& responder) {
  GatewayReply reply{.body = asset.body, .content_type = asset.content_type};
  co_await responder.Send(std::move(reply));
}

Await<void> SendPage(Responder& responder) {
  GatewayReply reply{.body = kPage, .content_type = "text/html; charset=utf-8"};
  reply.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
       "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
      {"X-Content-Type-Options", "nosniff"}};
  co_await responder.Send(std::move(reply));
}

}  // namespace

void AddPageRoutes(Gateway& gateway, Router& router) {
  if (!gateway.settings().serves_page) return;
  for (const char* path : {"/", "/index.html"}) {
    router.Add({.method = "GET",
                .pattern = path,
                .access = RouteAccess::kPublic,
                .handler = [](const Request&, const std::vector<std::string>&,
                              Responder& responder) { return SendPage(responder); }});
  }
  for (const Asset& asset : kAssets) {
    router.Add({.method = "GET",
                .pattern = asset.path,
                .access = RouteAccess::kPublic,
                .handler = [&asset](const Request&, const std::vector<std::string>&,
                                    Responder& responder) { return SendAsset(asset, responder); }});
  }
}

}  // namespace kvd::http
