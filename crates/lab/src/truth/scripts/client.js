// An HTTP/1.1 client on node's own: requests one after another over one connection. Its argument is a JSON object.
const http = require('http');
const https = require('https');

const knobs = JSON.parse(process.argv[2]);
const scheme = knobs.tls ? https : http;
const agent = new scheme.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

const get = (path) =>
  new Promise((done, failed) => {
    const request = scheme.get({ host: knobs.host, port: knobs.port, path, agent }, (response) => {
      response.resume();
      response.on('end', done);
      response.on('error', failed);
    });
    request.on('error', failed);
  });

(async () => {
  for (const [index, path] of knobs.paths.entries()) {
    if (index > 0) await sleep(knobs.pause || 0);
    await get(path);
  }
  agent.destroy();
})().catch(() => process.exit(1));
