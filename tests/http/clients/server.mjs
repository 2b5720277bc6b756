// Starts kvd-http for a test file and stops it at the end.
//
// KVD_BIN: the folder with kvd-http and kvd. The server serves the bundled model on a free port of
// loopback, with a state directory of its own.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export async function startServer(flags = []) {
  const folder = mkdtempSync(join(tmpdir(), 'kvd-http-clients-'));
  const child = spawn(
    join(process.env.KVD_BIN, 'kvd-http'),
    ['--port', '0', '--state-dir', folder, '--temp', '0', ...flags],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, XDG_RUNTIME_DIR: folder } });
  let log = '';
  const address = await new Promise((resolve, reject) => {
    child.stderr.on('data', (bytes) => {
      log += bytes;
      const found = log.match(/listening on (http:\/\/\S+)/);
      if (found) resolve(found[1]);
    });
    child.on('exit', (code) => reject(new Error(`kvd-http ended with ${code}: ${log}`)));
  });
  for (;;) {
    const health = await fetch(`${address}/health`);
    await health.text();
    if (health.status === 200) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    address,
    openai: `${address}/v1`,
    async slots() {
      return (await fetch(`${address}/slots`)).json();
    },
    async stop() {
      child.removeAllListeners('exit');
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// Waits until no slot computes, at most `seconds`.
export async function waitUntilIdle(server, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    const slots = await server.slots();
    if (slots.every((slot) => !slot.is_processing)) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
}
