// The @anthropic-ai/sdk package: messages, streams, tools, counts, errors.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { startServer, waitUntilIdle } from './server.mjs';

let server;
let client;
before(async () => {
  server = await startServer();
  client = new Anthropic({ baseURL: server.address, apiKey: 'none', maxRetries: 0 });
});
after(() => server.stop());

const question = {
  model: 'any',
  max_tokens: 60,
  system: 'Answer from the notebook. The drum is red, kept by Tom in the mill.',
  messages: [{ role: 'user', content: 'Who keeps the drum?' }],
};
const tools = [{
  name: 'find',
  description: 'Finds a thing.',
  input_schema: {
    type: 'object',
    properties: { thing: { type: 'string', maxLength: 12 } },
    required: ['thing'],
    additionalProperties: false,
  },
}];

test('a message is answered', async () => {
  const reply = await client.messages.create(question);
  assert.equal(reply.type, 'message');
  assert.match(reply.content[0].text, /Tom/);
  assert.equal(reply.stop_reason, 'end_turn');
  assert.ok(reply.usage.output_tokens > 0);
});

test('a stream adds up to the whole message', async () => {
  const whole = await client.messages.create(question);
  const streamed = await client.messages.stream(question).finalMessage();
  assert.equal(streamed.content[0].text, whole.content[0].text);
  assert.equal(streamed.stop_reason, whole.stop_reason);
});

test('a stop sequence is named', async () => {
  const reply = await client.messages.create({ ...question, stop_sequences: ['Tom'] });
  assert.equal(reply.stop_reason, 'stop_sequence');
  assert.equal(reply.stop_sequence, 'Tom');
});

test('a required tool is used, and its input is streamed as JSON', async () => {
  const request = { ...question, max_tokens: 200, tools, tool_choice: { type: 'any' } };
  const reply = await client.messages.create(request);
  const use = reply.content.find((block) => block.type === 'tool_use');
  assert.equal(use.name, 'find');
  assert.equal(typeof use.input.thing, 'string');
  assert.equal(reply.stop_reason, 'tool_use');
  const streamed = await client.messages.stream(request).finalMessage();
  assert.equal(streamed.content.find((block) => block.type === 'tool_use').name, 'find');
});

test('the result of a tool is read', async () => {
  const reply = await client.messages.create({
    ...question,
    tools,
    messages: [
      { role: 'user', content: 'Where is the drum?' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'find', input: { thing: 'drum' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'in the mill' }] },
    ],
  });
  assert.equal(reply.type, 'message');
});

test('tokens are counted', async () => {
  const count = await client.messages.countTokens(
    { model: 'any', system: question.system, messages: question.messages });
  assert.ok(count.input_tokens > 10);
});

test('an aborted stream frees its slot', async () => {
  const stream = client.messages.stream(
    { ...question, max_tokens: 3000, ignore_eos: true });
  let deltas = 0;
  stream.on('text', () => {
    if (++deltas === 4) stream.abort();
  });
  await assert.rejects(stream.finalMessage());
  assert.ok(await waitUntilIdle(server));
});

test('errors have a status and a message', async () => {
  await assert.rejects(
    client.messages.create({ ...question, messages: [{ role: 'narrator', content: 'x' }] }),
    (error) => error.status === 400 && /role/.test(error.message));
});
