// axe finds nothing serious in light and dark, on a desktop and on a phone.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {axeSource, base, call, close, newPage, open, startOperation, until} from './harness.mjs';
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
  await page.addScriptTag({path: axeSource}).catch(() => undefined);
  const result = await page.evaluate(async (dark) => {
    const found = await globalThis.axe.run(document, {resultTypes: ['violations'], ...(dark ? {runOnly: ['color-contrast']} : {})});
    return found.violations.map((v) => ({
      id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 5).map((n) => `${n.target.join(' ')}: ${n.any.concat(n.all, n.none).map((c) => c.message).join('; ')}`),
    }));
  }, dark);
  return result.filter((v) => v.impact === 'serious' || v.impact === 'critical');
}

const describe = (list) => list.map((v) => `${v.id} (${v.impact})\n  ${v.nodes.join('\n  ')}`).join('\n');

// WEIR_LOOK is a colour scheme and a width in pixels, such as "dark 1280".
{
  const [colorScheme, pixels] = process.env.WEIR_LOOK.split(' ');
  const width = Number(pixels);
  test(`${colorScheme} at ${width} pixels`, async (t) => {
    const page = await newPage('/', {colorScheme, viewport: {width, height: 800}, bypassCSP: true});
    const {nodes} = await call('list_nodes', {limit: 1});
    for (const place of places(operation, nodes[0].address)) {
      await t.test(place.name, async () => {
        await page.goto(base + place.path);
        await page.locator(place.ready).first().waitFor();
        await place.prepare?.(page);
        assert.equal(describe(await findings(page, colorScheme === 'dark')), '');
        if (width < 500) {
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
          assert.equal(wide, false, 'the page is wider than the phone');
        }
      });
    }
  });
}
