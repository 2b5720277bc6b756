// Frameworks on top of OpenAI's interface: Vercel's ai and LangChain.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { generateObject, generateText, streamText, tool } from 'ai';
import { z } from 'zod';
import { startServer } from './server.mjs';

let server;
let model;
before(async () => {
  server = await startServer();
  const provider = createOpenAICompatible({
    name: 'kvd', baseURL: server.openai, supportsStructuredOutputs: true, includeUsage: true });
  model = provider('any');
});
after(() => server.stop());

const system = 'Answer from the notebook. The drum is red, kept by Tom in the mill.';
const prompt = 'Who keeps the drum?';

test('ai: a text, and a stream of it', async () => {
  const whole = await generateText({ model, system, prompt, maxOutputTokens: 40 });
  assert.match(whole.text, /Tom/);
  const stream = streamText({ model, system, prompt, maxOutputTokens: 40 });
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  const usage = await stream.usage;
  assert.ok(usage.outputTokens > 0);
});

test('ai: an object that satisfies a schema', async () => {
  const reply = await generateObject({
    model, system, prompt, maxOutputTokens: 100, schema: z.object({ name: z.enum(['Tom', 'Ivy']) }) });
  assert.ok(['Tom', 'Ivy'].includes(reply.object.name));
});

test('ai: a tool is called', async () => {
  const calls = [];
  await generateText({
    model, system, prompt, maxOutputTokens: 200, toolChoice: 'required',
    tools: {
      find: tool({
        description: 'Finds a thing.',
        inputSchema: z.object({ thing: z.string().max(12) }),
        execute: async (input) => {
          calls.push(input);
          return 'in the mill';
        },
      }),
    },
  });
  assert.equal(calls.length >= 1, true);
  assert.equal(typeof calls[0].thing, 'string');
});

test('LangChain: a chat, and a stream of it', async () => {
  const chat = new ChatOpenAI({
    model: 'any', apiKey: 'none', temperature: 0, maxTokens: 40, maxRetries: 0,
    configuration: { baseURL: server.openai } });
  const messages = [['system', system], ['human', prompt]];
  const whole = await chat.invoke(messages);
  assert.match(whole.content, /Tom/);
  let text = '';
  for await (const piece of await chat.stream(messages)) text += piece.content;
  assert.equal(text, whole.content);
});
