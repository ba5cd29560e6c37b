// Takes the screenshots that documents show, as WebP, into the given directory. WEIR_PLACES, a regular
// expression, selects some of them.
import {mkdirSync, writeFileSync} from 'node:fs';

import {call, close, newPage, open, startOperation, until} from './harness.mjs';
import {places} from './places.mjs';

const directory = process.argv[2];
const wanted = new RegExp(process.env.WEIR_PLACES ?? '');
mkdirSync(directory, {recursive: true});
await open();
// Each job uses a different amount of memory, and a part of a core.
const work = 'size=$((RANDOM % 40 + 20)); head -c ${size}M /dev/zero | tail -c ${size}M | sleep $((RANDOM % 20 + 8)) & ' +
  'end=$(($(date +%s) + RANDOM % 20 + 10)); while [ $(date +%s) -lt $end ]; do timeout 0.2 sh -c "while :; do :; done"; sleep 0.8; done; true';
// A user without a guarantee fills the whole cluster with long jobs; others preempt their part of it.
const greedy = await startOperation({
  title: 'takes all there is', pool: 'adhoc', tasks: {t: {job_count: 36, command: 'sleep 900', cpu_limit: 0.3, memory_limit: 67108864}},
});
await until(async () => {
  const {brief_progress: progress} = await call('get_operation', {operation_id: greedy});
  if (progress.jobs.running < 20) throw new Error(`${progress.jobs.running} jobs run`);
}, 'the cluster is taken', 120_000).catch(() => console.log('the cluster was not taken in time'));
await call('set', {path: '//sys/pool_trees/default/research/@weight', value: 2});
// An operation that runs, waits and keeps losing jobs to others.
const operation = await startOperation({
  title: 'training of the large model', pool: 'batch', annotations: {ticket: 'ML-17'},
  tasks: {train: {job_count: 400, command: work, cpu_limit: 0.5, memory_limit: 134217728}},
  job_cpu_monitor: {enable_cpu_reclaim: true, check_period: 500},
});
await until(async () => {
  const {brief_progress: progress} = await call('get_operation', {operation_id: operation});
  if (progress.jobs.completed.total < 8) throw new Error(`${progress.jobs.completed.total} jobs are done`);
}, 'the operation has done something', 300_000);
await until(async () => {
  const {events} = await call('list_events', {types: ['job_preempted'], limit: 3});
  if (events.length < 3) throw new Error('not yet');
}, 'somebody was preempted', 180_000).catch(() => console.log('nobody was preempted in time'));
await call('abort_operation', {operation_id: greedy});
const {nodes} = await call('list_nodes', {limit: 1});
// The name of the place, then the settings of its browser.
const pictures = [
  ['scheduling', {colorScheme: 'light'}],
  ['operation-memory', {colorScheme: 'light'}],
  ['operation-why', {colorScheme: 'light'}],
  ['simulator', {colorScheme: 'dark'}],
];
const known = places(operation, nodes[0].address);
for (const [name, options] of pictures) {
  if (!wanted.test(name)) continue;
  const place = known.find((candidate) => candidate.name === name);
  const page = await newPage(place.path, options);
  await page.locator(place.ready).first().waitFor();
  await place.prepare?.(page);
  await page.waitForTimeout(1200);
  // Playwright itself writes only PNG and JPEG.
  const session = await page.context().newCDPSession(page);
  const {data} = await session.send('Page.captureScreenshot', {format: 'webp', quality: 85});
  writeFileSync(`${directory}/${name}-${options.colorScheme}.webp`, Buffer.from(data, 'base64'));
  await page.context().close();
}
await close();
