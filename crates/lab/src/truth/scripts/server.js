// An HTTP/1.1 server on node's own, with the knobs that it has no options for. Its argument is a JSON object.
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const https = require('https');
const path = require('path');

const knobs = JSON.parse(process.argv[2]);
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

async function respond(request, response) {
  if (request.method === 'PUT') {
    request.resume();
    await new Promise((done) => request.on('end', done));
    await sleep(knobs.think || 0);
    response.writeHead(201, { 'Content-Length': 0 });
    response.end();
    return;
  }
  await sleep(knobs.think || 0);
  const file = path.join(knobs.root, path.basename(request.url));
  response.writeHead(200, { 'Content-Length': fs.statSync(file).size });
  if (!knobs.write) {
    fs.createReadStream(file).pipe(response);
    return;
  }
  const [size, gap] = knobs.write;
  const bytes = fs.readFileSync(file);
  for (let at = 0; at < bytes.length; at += size) {
    response.write(bytes.subarray(at, at + size));
    await sleep(gap);
  }
  response.end();
}

const handler = (request, response) => respond(request, response).catch(() => response.destroy());
const options = knobs.certificate
  ? { cert: fs.readFileSync(knobs.certificate), key: fs.readFileSync(knobs.key) }
  : {};
let server;
if (knobs.http2) {
  const { window } = knobs.http2;
  if (window) options.settings = { initialWindowSize: window };
  server = knobs.certificate ? http2.createSecureServer(options, handler) : http2.createServer(options, handler);
  server.on('session', (session) => window && session.setLocalWindowSize(window));
} else {
  server = (knobs.certificate ? https : http).createServer(options, handler);
}
setTimeout(() => server.listen(knobs.port), (knobs.late || 0) * 1000);
