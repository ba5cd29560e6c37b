// axe finds nothing serious in light and dark, on a desktop and on a phone.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {axeSource, call, close, newPage, open, startOperation, until} from './harness.mjs';
import {places} from './places.mjs';

let operation;

before(async () => {
  await open();
  operation = await startOperation({
    title: 'runs and waits', pool: 'research',
    tasks: {t: {job_count: 200, command: 'echo done >&2; sleep $((RANDOM % 20))', cpu_limit: 0.5, memory_limit: 134217728}},
  });
  await until(async () => {
    const {brief_progress: progress} = await call('get_operation', {operation_id: operation});
    assert.ok(progress.jobs.completed.total > 0);
  }, 'a job has ended');
});
after(close);

async function findings(page) {
  await page.addScriptTag({path: axeSource}).catch(() => undefined);
  const result = await page.evaluate(async () => {
    const found = await globalThis.axe.run(document, {resultTypes: ['violations']});
    return found.violations.map((v) => ({
      id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 5).map((n) => `${n.target.join(' ')}: ${n.any.concat(n.all, n.none).map((c) => c.message).join('; ')}`),
    }));
  });
  return result.filter((v) => v.impact === 'serious' || v.impact === 'critical');
}

const describe = (list) => list.map((v) => `${v.id} (${v.impact})\n  ${v.nodes.join('\n  ')}`).join('\n');

// WEIR_LOOK is a colour scheme and a width in pixels, such as "dark 1280".
{
  const [colorScheme, pixels] = process.env.WEIR_LOOK.split(' ');
  const width = Number(pixels);
  test(`${colorScheme} at ${width} pixels`, async (t) => {
    const {nodes} = await call('list_nodes', {limit: 1});
    for (const place of places(operation, nodes[0].address)) {
      await t.test(place.name, async () => {
        const page = await newPage(place.path, {colorScheme, viewport: {width, height: 800}, bypassCSP: true});
        await page.locator(place.ready).first().waitFor();
        await place.prepare?.(page);
        assert.equal(describe(await findings(page)), '');
        if (width < 500) {
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
          assert.equal(wide, false, 'the page is wider than the phone');
        }
        await page.context().close();
      });
    }
  });
}
