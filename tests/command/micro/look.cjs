// Looks at the seat's service as the official client does, and prints what it saw as one JSON object.
"use strict";

const { connect, ServiceError, ServiceErrorCodeHeader } = require("nats");

const VERB = "mesh-provisioner.provisioning";

async function all(iterator) {
  const seen = [];
  for await (const one of await iterator) {
    seen.push(one);
  }
  return seen;
}

async function main([server, user, name]) {
  const connection = await connect({ servers: server, user, pass: process.env.PASSWORD, timeout: 5000 });
  const ask = async (body) => {
    const answer = await connection.request(VERB, body, { timeout: 5000 });
    return {
      isError: ServiceError.isServiceError(answer),
      error: ServiceError.toServiceError(answer),
      code: answer.headers?.get(ServiceErrorCodeHeader) ?? null,
      body: answer.json(),
    };
  };
  const seen = { good: await ask('{"what":"registry"}'), bad: await ask('{"what":"everything"}') };
  const client = connection.services.client();
  const [first] = await all(client.ping(name));
  const ways = { everyone: [], named: [name], identified: [name, first.id] };
  for (const [way, filter] of Object.entries(ways)) {
    seen[way] = {
      ping: await all(client.ping(...filter)),
      info: await all(client.info(...filter)),
      stats: await all(client.stats(...filter)),
    };
  }
  await connection.close();
  process.stdout.write(JSON.stringify(seen));
}

function fail(words) {
  process.stderr.write(`${words}\n`);
  // An open connection would keep the process alive.
  process.exit(1);
}

setTimeout(() => fail("not done within 30 s"), 30_000).unref();
main(process.argv.slice(2)).catch((error) => fail(error.stack));
