// A client on the package ws: see peers_test.go for what it does.
'use strict';
const WebSocket = require('ws');

const [mode, url, token, file] = process.argv.slice(2);
const headers = token ? { Authorization: 'Bearer ' + token } : {};

function fail(text) {
  console.error(text);
  process.exit(1);
}

process.on('unhandledRejection', (error) => fail(error.stack));

// refused: the handshake is answered with this status.
function refused(status) {
  const ws = new WebSocket(url, { headers });
  ws.on('unexpected-response', (_, response) => {
    if (response.statusCode !== status) fail(`status ${response.statusCode}, want ${status}`);
    process.exit(0);
  });
  ws.on('open', () => fail('the connection was accepted'));
}

function opened() {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(url, { headers });
    ws.on('open', () => resolve(ws));
    ws.on('error', reject);
  });
}

function ping(ws) {
  return new Promise((resolve) => {
    ws.once('pong', (data) => (data.toString() === 'are you there' ? resolve() : fail(`pong with ${data}`)));
    ws.ping('are you there');
  });
}

function close(ws) {
  return new Promise((resolve) => {
    ws.on('close', (code) => (code === 1000 ? resolve() : fail(`closed with ${code}`)));
    ws.close(1000, 'done');
  });
}

async function converse() {
  const ws = await opened();
  const calls = new Map();
  let last = 0;
  let bytes = 0;
  let closed;
  const ended = new Promise((resolve) => { closed = resolve; });
  ws.on('message', (data, binary) => {
    if (binary) fail('a binary message came');
    const message = JSON.parse(data);
    if (message.method === 'process/output') bytes += Buffer.from(message.params.chunk, 'base64').length;
    if (message.method === 'process/closed') closed();
    if ('id' in message) {
      if (message.error) fail(JSON.stringify(message.error));
      calls.get(message.id)(message.result);
    }
  });
  const call = (method, params) => new Promise((resolve) => {
    calls.set(++last, resolve);
    ws.send(JSON.stringify({ id: last, method, params }));
  });
  await call('initialize', { clientName: 'ws' });
  ws.send(JSON.stringify({ method: 'initialized' }));
  await call('process/start', {
    processId: 'p', argv: ['head', '-c', '3000000', '/dev/zero'], cwd: 'file:///', env: {}, tty: false,
  });
  await ended;
  if (bytes !== 3000000) fail(`${bytes} bytes of output came`);
  const content = Buffer.alloc(3 << 20, 'x').toString('base64');
  const text = JSON.stringify({ id: ++last, method: 'fs/writeFile', params: { path: file, dataBase64: content } });
  // In fragments, with a ping in between.
  const written = new Promise((resolve) => { calls.set(last, resolve); });
  ws.send(text.slice(0, 1000), { fin: false });
  await ping(ws);
  ws.send(text.slice(1000), { fin: true });
  await written;
  const { size } = await call('fs/getMetadata', { path: file });
  if (size !== 3 << 20) fail(`the file has ${size} bytes`);
  await ping(ws);
  await close(ws);
}

// relay: the service passes on what is no frame, and the executor drops it.
async function relay() {
  const ws = await opened();
  await ping(ws);
  ws.send('no frame of the relay');
  ws.send(Buffer.alloc(100000, 'x'));
  await ping(ws);
  await close(ws);
}

switch (mode) {
  case 'converse': converse(); break;
  case 'relay': relay(); break;
  default: refused(Number(mode));
}
