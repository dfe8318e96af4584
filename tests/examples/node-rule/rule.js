// A rule of Conch in Node: it reads every act from the bus, scores it, and says so itself.
// node rule.js HOME (of a run in progress)   or, with a server of your own,   node rule.js nats://host [FILE OF ITS KEY]
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, nanos, nkeyAuthenticator, nkeys } from "@nats-io/transport-node";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

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

/** Whether a value is what the contract says; the reasons are in its `errors`. */
function contract(type) {
  const schema = readFileSync(new URL(`../../../schemas/json/${type}.json`, import.meta.url), "utf8");
  return addFormats(new Ajv({ strict: false })).compile(JSON.parse(schema));
}

const place = process.argv[2] ?? "nats://127.0.0.1:4222";
const bus = place.includes("://") ? { url: place } : JSON.parse(readFileSync(`${place}/run.json`, "utf8")).bus;
const login = process.argv[3] ? signed(process.argv[3]) : bus.user ? { user: bus.user, pass: bus.token } : { token: bus.token };
const connection = await connect({ servers: bus.url, name: NAME, ...login });
process.once("SIGTERM", () => connection.drain());
const [isAct, isReward] = [contract("conch.v1.action.taken"), contract(TYPE)];
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
  if (!isReward(event)) throw new Error(JSON.stringify(isReward.errors));
  await stream.publish(`conch.v1.${act.agent}.reward.assigned`, JSON.stringify(event), { msgID: event.id });
  message.ack(); // last: an act whose reward is not stored comes again
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
