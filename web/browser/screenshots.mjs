// Pictures of every page, light and dark, into the directory given.
import {mkdirSync} from 'node:fs';

import {call, close, newPage, open, startOperation, until} from './harness.mjs';
import {places} from './places.mjs';

const directory = process.argv[2];
mkdirSync(directory, {recursive: true});
await open();
// An operation that fills the cluster, runs, waits and loses jobs to others all the while.
const operation = await startOperation({
  title: 'training of the large model', pool: 'batch', annotations: {ticket: 'ML-17'},
  tasks: {train: {job_count: 400, command: 'sleep $((RANDOM % 30 + 10))', cpu_limit: 0.5, memory_limit: 134217728}},
});
await until(async () => {
  const {brief_progress: progress} = await call('get_operation', {operation_id: operation});
  if (progress.jobs.completed.total < 8) throw new Error(`${progress.jobs.completed.total} jobs are done`);
}, 'the operation has done something');
await until(async () => {
  const {events} = await call('list_events', {types: ['job_preempted'], limit: 3});
  if (events.length < 3) throw new Error('not yet');
}, 'somebody was preempted').catch(() => console.log('nobody was preempted in time'));
const {nodes} = await call('list_nodes', {limit: 1});
for (const colorScheme of ['light', 'dark']) {
  for (const place of places(operation, nodes[0].address)) {
    const page = await newPage(place.path, {colorScheme});
    await page.locator(place.ready).first().waitFor();
    await page.waitForTimeout(1200);
    await page.screenshot({path: `${directory}/${place.name}-${colorScheme}.png`});
    await page.context().close();
  }
}
for (const [name, path, options] of [
  ['phone', '/scheduling', {viewport: {width: 390, height: 800}}],
  ['russian', '/scheduling', {locale: 'ru-RU'}],
]) {
  const page = await newPage(path, options);
  await page.locator('.grid__body .grid__row').first().waitFor();
  await page.screenshot({path: `${directory}/scheduling-${name}.png`});
  await page.context().close();
}
await close();
