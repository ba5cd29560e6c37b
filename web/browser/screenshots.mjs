// Pictures of every page, light and dark, into the directory given.
import {mkdirSync} from 'node:fs';

import {call, close, newPage, open, until} from './harness.mjs';
import {places} from './places.mjs';

const directory = process.argv[2];
mkdirSync(directory, {recursive: true});
await open();
// The most telling operation is one that runs and has done something.
const operation = await until(async () => {
  const {operations} = await call('list_operations', {state: 'running', limit: 50});
  const best = operations.find((o) => o.brief_progress.jobs.completed.total > 0 && o.brief_progress.jobs.running > 0);
  if (!best) throw new Error('no operation has done anything yet');
  return best.id;
}, 'an operation that has done something');
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
