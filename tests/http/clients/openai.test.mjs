// The openai package: chats, streams, tools, schemas, embeddings' refusal, responses, aborts, errors.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { startServer, waitUntilIdle } from './server.mjs';

let server;
let client;
before(async () => {
  server = await startServer();
  client = new OpenAI({ baseURL: server.openai, apiKey: 'none', maxRetries: 0 });
});
after(() => server.stop());

const messages = [
  { role: 'system', content: 'Answer from the notebook. The drum is red, kept by Tom in the mill.' },
  { role: 'user', content: 'Who keeps the drum?' },
];
const tools = [{
  type: 'function',
  function: {
    name: 'find',
    description: 'Finds a thing.',
    parameters: {
      type: 'object',
      properties: { thing: { type: 'string', maxLength: 12 } },
      required: ['thing'],
      additionalProperties: false,
    },
  },
}];

test('a chat is answered', async () => {
  const reply = await client.chat.completions.create({ model: 'any', messages, max_tokens: 40 });
  assert.equal(reply.choices[0].message.role, 'assistant');
  assert.match(reply.choices[0].message.content, /Tom/);
  assert.equal(reply.choices[0].finish_reason, 'stop');
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

test('a stream has the same text, a role once, and usage', async () => {
  const whole = await client.chat.completions.create({ model: 'any', messages, max_tokens: 40 });
  const stream = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 40, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let roles = 0;
  let usage = null;
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    if (chunk.choices.length === 0) continue;
    text += chunk.choices[0].delta.content ?? '';
    roles += chunk.choices[0].delta.role ? 1 : 0;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(roles, 1);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('several answers to one prompt', async () => {
  const reply = await client.chat.completions.create(
    { model: 'any', messages, max_tokens: 8, n: 3, temperature: 1.5, seed: 7 });
  assert.equal(reply.choices.length, 3);
  assert.deepEqual(reply.choices.map((choice) => choice.index).sort(), [0, 1, 2]);
});

test('a required call of a function has arguments that satisfy the schema', async () => {
  const reply = await client.chat.completions.create(
    { model: 'any', messages, tools, tool_choice: 'required', max_tokens: 200 });
  const call = reply.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'find');
  assert.equal(typeof JSON.parse(call.function.arguments).thing, 'string');
  assert.equal(reply.choices[0].finish_reason, 'tool_calls');
});

test('calls are streamed', async () => {
  const stream = await client.chat.completions.create(
    { model: 'any', messages, tools, tool_choice: 'required', max_tokens: 200, stream: true });
  let name = '';
  let argumentsText = '';
  for await (const chunk of stream) {
    for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
      name += call.function?.name ?? '';
      argumentsText += call.function?.arguments ?? '';
    }
  }
  assert.equal(name, 'find');
  assert.equal(typeof JSON.parse(argumentsText).thing, 'string');
});

test('an answer satisfies a schema', async () => {
  const schema = {
    type: 'object',
    properties: { name: { enum: ['Tom', 'Ivy'] }, count: { type: 'integer', minimum: 1, maximum: 3 } },
    required: ['name', 'count'],
    additionalProperties: false,
  };
  const reply = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 100,
    response_format: { type: 'json_schema', json_schema: { name: 'keeper', schema } } });
  const value = JSON.parse(reply.choices[0].message.content);
  assert.ok(['Tom', 'Ivy'].includes(value.name));
  assert.ok(value.count >= 1 && value.count <= 3);
});

test('an aborted stream frees its slot', async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create(
    { model: 'any', messages, max_tokens: 3000, stream: true, logit_bias: {}, ignore_eos: true },
    { signal: controller.signal });
  let chunks = 0;
  await assert.rejects(async () => {
    for await (const chunk of stream) {
      chunks += chunk ? 1 : 0;
      if (chunks === 4) controller.abort();
    }
    if (controller.signal.aborted) throw new Error('aborted');
  });
  assert.ok(await waitUntilIdle(server));
});

test('errors have status, type and message', async () => {
  await assert.rejects(
    client.chat.completions.create({ model: 'any', messages: 'no list' }),
    (error) => error.status === 400 && error.type === 'invalid_request_error' &&
      /messages/.test(error.message));
  await assert.rejects(
    client.chat.completions.create({ model: 'any', messages, temperature: 'hot' }),
    (error) => error.status === 400 && /temperature/.test(error.message));
  await assert.rejects(
    client.chat.completions.create(
      { model: 'any', messages: [{ role: 'user', content: 'word '.repeat(20000) }] }),
    (error) => error.status === 400 && error.type === 'exceed_context_size_error');
});

test('the models are listed', async () => {
  const list = await client.models.list();
  assert.ok(list.data.length >= 1);
  const model = await client.models.retrieve(list.data[0].id);
  assert.equal(model.id, list.data[0].id);
});

test('a completion of a text', async () => {
  const reply = await client.completions.create(
    { model: 'any', prompt: 'The drum is', max_tokens: 8 });
  assert.equal(typeof reply.choices[0].text, 'string');
  assert.equal(reply.choices[0].finish_reason, 'length');
});

test('a response continues the one before it', async () => {
  const first = await client.responses.create(
    { model: 'any', input: messages, max_output_tokens: 60 });
  assert.match(first.output_text, /Tom/);
  const second = await client.responses.create(
    { model: 'any', previous_response_id: first.id, input: 'What colour is the drum?',
      max_output_tokens: 60 });
  assert.equal(second.previous_response_id, first.id);
  assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  const stored = await client.responses.retrieve(second.id);
  assert.equal(stored.output_text, second.output_text);
  const items = await client.responses.inputItems.list(second.id);
  assert.ok(items.data.length >= 1);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), (error) => error.status === 404);
});

test('the events of a response are numbered and end with the whole response', async () => {
  const stream = await client.responses.create(
    { model: 'any', input: 'Who keeps the drum?', max_output_tokens: 24, stream: true });
  let number = 0;
  let text = '';
  let completed = null;
  for await (const event of stream) {
    assert.equal(event.sequence_number, number++);
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') completed = event.response;
  }
  assert.equal(completed.output_text, text);
});
