// The pages of pods of Kubernetes agree with the API. The cluster has the namespaces of test/kube/page_test.go.
import assert from 'node:assert/strict';
import {after, afterEach, before, test} from 'node:test';

import {axeSource, call, close, closePages, newPage, open, shows, textOf, until} from './harness.mjs';

before(open);
afterEach(closePages);
after(close);

/** forAxe lets axe into a page, whose policy forbids foreign scripts. */
const forAxe = {bypassCSP: true};

/** picture keeps a screenshot if WEIR_SCREENSHOTS names a directory. */
async function picture(page, name) {
  if (process.env.WEIR_SCREENSHOTS) await page.screenshot({path: `${process.env.WEIR_SCREENSHOTS}/${name}.png`, fullPage: true});
}

async function accessible(page) {
  await page.addScriptTag({path: axeSource});
  const {violations} = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
  assert.deepEqual(violations.filter(({impact}) => impact === 'serious' || impact === 'critical').map(({id, nodes}) => [id, nodes[0].html]), []);
}

test('the list has all pods with their namespaces and reasons', async () => {
  const page = await newPage('/pods', forAxe);
  const {pods, namespaces} = await call('list_pods');
  assert.deepEqual(Object.keys(namespaces), ['page-lab', 'page-web']);
  await page.getByRole('link', {name: 'huge', exact: true}).waitFor();
  for (const pod of pods) {
    const row = page.getByRole('row', {name: new RegExp(`${pod.namespace}\\s+${pod.name}\\s`)});
    await until(async () => assert.ok((await row.innerText()).includes(pod.reason || pod.node)), `the row of ${pod.name}`);
  }
  await accessible(page);
  await picture(page, 'pods');
  await page.goto(page.url() + '?namespace=page-web');
  await until(async () => assert.equal(await page.getByRole('link', {name: 'huge', exact: true}).count(), 0), 'other namespaces are left out');
  await shows(page, '1 pod');
  page.mistakes();
});

test('the page of a pod says why it waits', async () => {
  for (const [name, reason, words] of [
    ['huge', 'Unschedulable', '0/1 nodes are available: 1 had insufficient cpu'],
    ['nowhere', 'WeirPoolDenied', 'there is no pool "nowhere" in tree "default"'],
    ['malformed', 'WeirUnsupported', 'metadata.annotations[weir.dev/gang-size]: "many" is not a whole number'],
  ]) {
    const page = await newPage(`/pods/page-lab/${name}`, forAxe);
    await shows(page, reason);
    await shows(page, words);
    if (name === 'huge') {
      await shows(page, 'What its operation waits for');
      await until(async () => assert.match(await textOf(page), /cpu/), 'the operation is explained');
      await accessible(page);
      await picture(page, 'pod');
    }
    page.mistakes();
  }
});

test('a pod leads to its node, its pool and its operation, and one that is gone is said to be', async () => {
  const page = await newPage('/pods/page-web/front');
  await page.getByRole('link', {name: 'page-1', exact: true}).waitFor();
  await page.getByRole('link', {name: '*page-web/Pod/pods', exact: true}).click();
  await shows(page, 'Pod page-web/pods');
  const missing = await newPage('/pods/page-web/nobody');
  await shows(missing, 'Weir does not schedule a pod of this name');
  page.mistakes();
});
