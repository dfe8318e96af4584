// A rule of Conch in Node: it reads every act from the bus, scores it, and says so itself.
// node rule.js HOME (of a run in progress)   or, with a server of your own,   node rule.js nats://host [FILE OF ITS KEY]
// --schemas DIR: where the contracts are, for a copy of this file. It ends with 2 for what it is given, 3 without a bus.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const NAME = "plainness"; // the component, its scorer, and the consumer
const VERSION = "1"; // raise it when the rule comes to mean something else
const TYPE = "conch.v1.reward.assigned";

/** 1.0 for words of up to six letters on average, 0.0 from ten on; null (not applicable) without a word. */
function plainness(act) {
  const words = act.data.raw.match(/\p{L}+/gu);
  if (words === null) return null;
  const mean = words.join("").length / words.length;
  return Math.min(1, Math.max(0, (10 - mean) / 4));
}

/** The event that follows from an act. Its id does too: said twice, it is counted once. */
function assigned(act) {
  const value = plainness(act);
  const status = value === null ? "not_applicable" : "scored";
  const score = { component: NAME, value, range: [0, 1], status, explanation: "length of its words", scorer: NAME, version: VERSION };
  return {
    specversion: "1.0",
    id: uuid5(act.id, `${NAME}/${VERSION}/${TYPE}/0`),
    source: act.source,
    type: TYPE,
    subject: act.subject,
    time: new Date().toISOString(),
    datacontenttype: "application/json",
    agent: act.agent,
    cycle: act.cycle,
    actionid: act.actionid,
    causationid: act.id,
    policy: act.policy,
    data: { scorer: NAME, version: VERSION, scores: [score] },
  };
}

function uuid5(namespace, name) {
  const hash = createHash("sha1").update(Buffer.from(namespace.replaceAll("-", ""), "hex")).update(name).digest();
  hash[6] = (hash[6] & 0x0f) | 0x50;
  hash[8] = (hash[8] & 0x3f) | 0x80;
  return hash.toString("hex", 0, 16).replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** One sentence, and the end: 2 for what it was given, 3 for a bus that is not there, or no more. */
function end(status, sentence) {
  console.error(`${NAME}: ${sentence}`);
  process.exit(status);
}

/** What `make` gives; where it fails, that is the end, for the reason that `why` has for it. */
function orEnd(status, make, why) {
  return new Promise((done) => done(make())).catch((error) => end(status, why(error.message.split("\n")[0])));
}

const packages = ["@nats-io/jetstream", "@nats-io/transport-node", "ajv/dist/2020.js", "ajv-formats"];
const [{ AckPolicy, DeliverPolicy, jetstream, jetstreamManager }, { connect, nanos, nkeyAuthenticator, nkeys }, ajv, formats] =
  await orEnd(2, () => Promise.all(packages.map((name) => import(name))), () => "its packages are not here: npm ci installs them");

const beside = fileURLToPath(new URL("../../../schemas/json", import.meta.url));
const options = { schemas: { type: "string", default: beside } };
const given = await orEnd(2, () => parseArgs({ options, allowPositionals: true }), (why) => why);
const [place = "nats://127.0.0.1:4222", key] = given.positionals;
const own = place.includes("://"); // a server of one's own comes back where it was; a run's does not
const bus = own ? { url: place } : await orEnd(3, () => JSON.parse(readFileSync(`${place}/run.json`, "utf8")).bus, () =>
  `there is no run in progress at ${place}: conch run starts one`);
const login = key
  ? await orEnd(2, () => signed(key), (why) => `${key} holds no key (${why}): conch bus permissions makes one`)
  : bus.user ? { user: bus.user, pass: bus.token } : { token: bus.token };
const [isAct, isReward] = await orEnd(2, () => ["conch.v1.action.taken", TYPE].map(contract), (why) =>
  `the contracts cannot be read (${why}): --schemas names the directory they are in`);
const connection = await orEnd(3, () => connect({ servers: bus.url, name: NAME, reconnect: own, ...login }), (why) =>
  `the bus at ${bus.url} does not let it in (${why})`);
let told = false; // to end
process.once("SIGTERM", () => {
  told = true;
  connection.drain();
});
connection.closed().then(() => told || end(3, `the bus at ${bus.url} is gone: start it again beside the next run`));
score().catch((error) => told || end(3, `the bus at ${bus.url} is gone, or refuses what it asks for (${error.message})`));

/** Each act of the stream, as long as there is a bus. */
async function score() {
  const stream = jetstream(connection);
  const manager = await jetstreamManager(connection);
  await manager.consumers.add("CONCH", {
    durable_name: NAME, // our place on the stream, kept by the server
    filter_subject: "conch.v1.*.action.taken",
    deliver_policy: DeliverPolicy.All, // the past is scored too; New: only what comes
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(5_000), // what is not acknowledged by then comes again
  });
  const acts = await (await stream.consumers.get("CONCH", NAME)).consume({ max_messages: 100 });
  console.log(`${NAME} scores what is done on ${bus.url}`);
  for await (const message of acts) {
    const act = parsed(message.string());
    if (!isAct(act)) {
      console.error(`${message.seq} is no act:`, isAct.errors?.[0]);
      message.term("no action.taken");
      continue;
    }
    const event = assigned(act);
    if (!isReward(event)) end(1, `its score breaks the contract: ${JSON.stringify(isReward.errors)}`);
    await stream.publish(`conch.v1.${act.agent}.reward.assigned`, JSON.stringify(event), { msgID: event.id });
    message.ack(); // last: an act whose reward is not stored comes again
  }
}

/** Whether a value is what the contract says; the reasons are in its `errors`. */
function contract(type) {
  const schema = readFileSync(`${given.values.schemas}/${type}.json`, "utf8");
  return formats.default(new ajv.default({ strict: false })).compile(JSON.parse(schema));
}

/** As a user of `conch bus permissions`, who hears answers under its own name alone. */
function signed(file) {
  const seed = new TextEncoder().encode(readFileSync(file, "utf8").trim());
  return { authenticator: nkeyAuthenticator(seed), inboxPrefix: `_INBOX.${nkeys.fromSeed(seed).getPublicKey()}` };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
