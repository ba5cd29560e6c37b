// axe finds nothing serious in light and dark, on a desktop and on a phone.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {axeSource, call, close, go, newPage, open, startOperation, until} from './harness.mjs';
import {places} from './places.mjs';

let operation;

before(async () => {
  await open();
  operation = await startOperation({
    title: 'runs and waits', pool: 'research',
    tasks: {
      done: {job_count: 1, command: 'echo done >&2', cpu_limit: 0.1, memory_limit: 134217728},
      runs: {job_count: 4, command: 'sleep 600', cpu_limit: 0.1, memory_limit: 134217728},
      waits: {job_count: 4, command: 'sleep 600', cpu_limit: 9, memory_limit: 134217728}, // no node is so large
    },
  });
  await until(async () => {
    const {brief_progress: progress} = await call('get_operation', {operation_id: operation});
    assert.ok(progress.jobs.completed.total > 0);
  }, 'a job has ended');
});
after(close);

/** findings runs axe; in the dark look, which differs from the light one in colours alone, only its rule about contrast. */
async function findings(page, dark) {
  const result = await page.evaluate(async (dark) => {
    const found = await globalThis.axe.run(document, {resultTypes: ['violations'], preload: false, ...(dark ? {runOnly: ['color-contrast']} : {})});
    return found.violations.map((v) => ({
      id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 5).map((n) => `${n.target.join(' ')}: ${n.any.concat(n.all, n.none).map((c) => c.message).join('; ')}`),
    }));
  }, dark);
  return result.filter((v) => v.impact === 'serious' || v.impact === 'critical');
}

const describe = (list) => list.map((v) => `${v.id} (${v.impact})\n  ${v.nodes.join('\n  ')}`).join('\n');

const looks = [{colorScheme: 'light', width: 1280}, {colorScheme: 'dark', width: 1280}, {colorScheme: 'light', width: 390}];

// One page visits all places, and takes all looks at each: loading a page costs more than looking at it.
test('nothing serious', async (t) => {
  const page = await newPage('/', {colorScheme: 'light', viewport: {width: 1280, height: 800}, bypassCSP: true});
  await page.addScriptTag({path: axeSource});
  await page.addStyleTag({content: '* {transition: none !important; animation: none !important}'}); // colours change at once
  const {nodes} = await call('list_nodes', {limit: 1});
  // WEIR_PLACES, a regular expression, selects some places.
  const wanted = new RegExp(process.env.WEIR_PLACES ?? '');
  for (const place of places(operation, nodes[0].address).filter(({name}) => wanted.test(name))) {
    await t.test(place.name, async () => {
      await go(page, place.path);
      await page.locator(place.ready).first().waitFor();
      await place.prepare?.(page);
      for (const {colorScheme, width} of looks) {
        await page.emulateMedia({colorScheme});
        await page.setViewportSize({width, height: 800});
        await page.locator(`.g-root_theme_${colorScheme}`).first().waitFor();
        await page.locator(place.ready).first().waitFor();
        assert.equal(describe(await findings(page, colorScheme === 'dark')), '', `${colorScheme} at ${width} pixels`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
        assert.equal(wide, false, `the page is wider than ${width} pixels`);
      }
      await page.emulateMedia({colorScheme: 'light'});
      await page.setViewportSize({width: 1280, height: 800});
    });
  }
});
