// Each action works, and each refusal shows the server's reason.
import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import {after, afterEach, before, test} from 'node:test';

import {call, close, closePages, get, newPage, open, shows, sleeper, startOperation, until} from './harness.mjs';

before(open);
afterEach(closePages);
after(close);

const weightOf = (pool) => get(`//sys/pool_trees/default/${pool}/@weight`);

test('the weight of a pool is changed, and the change is in its history', async () => {
  const page = await newPage('/scheduling/default/research?tab=attributes');
  await page.getByLabel('Weight').fill('3.5');
  await shows(page, 'pool research: weight');
  await shows(page, 'All promises can be kept');
  await shows(page, 'weir set //sys/pool_trees/default/research/@weight 3.5 --format json');
  await page.getByRole('button', {name: 'Save'}).click();
  await until(async () => assert.equal(await weightOf('research'), 3.5), 'the weight is set');
  await page.getByRole('tab', {name: 'Changes'}).click();
  await shows(page, '→ 3.5');
  // What apply does to the pool together with others is there too.
  const {document} = await call('export_pools');
  document.pools.research.resource_limits = {memory: 64 * 2 ** 30};
  document.pools.production.weight = 5;
  await call('apply_pools', {document});
  const row = page.locator('tr', {hasText: 'apply_pools'}).first();
  await row.getByText('pool research: resource_limits').waitFor();
  await row.getByText('1 other change at once').click();
  await row.getByText('pool production: weight').waitFor();
  page.mistakes();
});

test('memory is shown and typed with its unit', async () => {
  await call('set', {path: '//sys/pool_trees/default/research/@resource_limits', value: {memory: 64 * 2 ** 30}});
  const page = await newPage('/scheduling/default/research?tab=attributes');
  const field = page.locator('.section', {has: page.getByRole('heading', {name: 'Limit', exact: true})}).getByLabel('memory');
  await until(async () => assert.equal(await field.inputValue(), '64GiB'), 'the limit is shown in GiB');
  await field.fill('1.5 GiB');
  await shows(page, `weir set //sys/pool_trees/default/research/@resource_limits '{"memory":1610612736}'`);
  await page.getByRole('button', {name: 'Save'}).click();
  await until(async () => assert.equal((await get('//sys/pool_trees/default/research/@resource_limits')).memory, 1.5 * 2 ** 30), 'the limit is set');
  await call('remove', {path: '//sys/pool_trees/default/research/@resource_limits'});
  page.mistakes();
});

test('the access list of a pool is shown and changed', async () => {
  const page = await newPage('/scheduling/default/research?tab=acl');
  await page.getByRole('region', {name: 'Inherited entries'}).getByText('admins').waitFor();
  await page.getByRole('button', {name: 'Add an entry'}).click();
  await page.getByRole('dialog').getByLabel('Users and groups').fill('users');
  await page.getByRole('dialog').getByRole('button', {name: 'Add', exact: true}).click();
  const own = page.getByRole('region', {name: 'Own entries'});
  await own.getByRole('cell', {name: 'users', exact: true}).waitFor();
  assert.deepEqual((await get('//sys/pool_trees/default/research/@acl')).map((entry) => entry.subjects), [['users']]);
  await own.getByRole('button', {name: 'Remove'}).click();
  await page.getByRole('dialog').getByRole('button', {name: 'Remove'}).click();
  await until(async () => assert.deepEqual(await get('//sys/pool_trees/default/research/@acl'), []), 'the entry is gone');
  page.mistakes();
});

test('an operation is started as weir run would, and one that cannot run opens with why', async () => {
  const page = await newPage('/scheduling/default/research');
  await page.getByRole('button', {name: 'Start an operation'}).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Command').waitFor();
  await until(async () => assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA'), 'the command has the focus');
  await page.keyboard.type('echo "from the page"');
  await dialog.getByLabel('Cores per job').fill('9'); // no node is so large
  await dialog.getByLabel('Memory limit per job').fill('a lot');
  await shows(page, 'a size such as 64GiB');
  await dialog.getByLabel('Memory limit per job').fill('128 MiB');
  await shows(page, `weir run --detach --pool research --cpu 9 --memory 128MiB -- 'echo "from the page"'`);
  await dialog.getByRole('button', {name: 'Start', exact: true}).click();
  await until(() => assert.match(page.url(), /\/operations\/[0-9a-f]+-/), 'the page of the operation opens');
  await page.getByRole('tab', {name: 'Why', selected: true}).waitFor();
  const id = new URL(page.url()).pathname.split('/').pop();
  const {spec} = await call('get_operation', {operation_id: id});
  assert.deepEqual([spec.pool, spec.tasks.run.memory_limit, spec.tasks.run.cpu_limit], ['research', 128 * 2 ** 20, 9]);
  await call('abort_operation', {operation_id: id});
  page.mistakes();
});

test('a pool edited into an invalid state is refused in words', async () => {
  const page = await newPage('/scheduling/default/research?tab=attributes');
  const before = await weightOf('research').catch(() => undefined);
  await page.getByLabel('Weight').fill('-4');
  await shows(page, 'The server would refuse this');
  await shows(page, 'must be a number from 0');
  await page.getByRole('button', {name: 'Save'}).click();
  await shows(page, 'The server refused the request');
  assert.equal(await weightOf('research').catch(() => undefined), before);
});

test('promises that do not fit the cluster are told before saving', async () => {
  const page = await newPage('/scheduling/default/research?tab=attributes');
  await page.locator('section', {hasText: 'Strong guarantee'}).getByLabel('cpu').first().fill('100000');
  await shows(page, 'Not all promises can be kept');
  await shows(page, 'the cluster has');
});

test('a pool is created, moved and deleted; a bad name is refused', async () => {
  const page = await newPage('/scheduling');
  await page.getByRole('button', {name: 'Create a pool'}).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('no such/name');
  await dialog.getByRole('button', {name: 'Create', exact: true}).click();
  await shows(page, 'must match regular expression');
  await dialog.getByLabel('Name').fill('fresh');
  await dialog.getByLabel('Strong guarantee, CPU').fill('100000');
  await shows(page, 'Not all promises can be kept');
  await dialog.getByLabel('Strong guarantee, CPU').fill('');
  await dialog.getByLabel('Weight').fill('4');
  await shows(page, 'All promises can be kept');
  await shows(page, 'weir create scheduler_pool');
  await dialog.getByRole('button', {name: 'Create', exact: true}).click();
  await until(async () => assert.equal((await call('exists', {path: '//sys/pool_trees/default/fresh'})).value, true), 'the pool is there');
  assert.equal(await weightOf('fresh'), 4);

  await page.goto(new URL('/scheduling/default/fresh', page.url()).href);
  await page.getByRole('button', {name: 'Move', exact: true}).click();
  await page.getByRole('dialog').getByLabel('Name').fill('older');
  await page.getByRole('dialog').getByRole('button', {name: 'Move', exact: true}).click();
  await until(async () => assert.equal((await call('exists', {path: '//sys/pool_trees/default/older'})).value, true), 'the pool has its new name');

  await page.goto(new URL('/scheduling/default/older', page.url()).href);
  await page.getByRole('button', {name: 'Delete', exact: true}).click();
  await page.getByRole('dialog').getByRole('button', {name: 'Delete', exact: true}).click();
  await until(async () => assert.equal((await call('exists', {path: '//sys/pool_trees/default/older'})).value, false), 'the pool is gone');
  page.mistakes();
});

test('an operation is suspended, resumed, reweighted and aborted', async () => {
  const id = await startOperation(sleeper({title: 'to be aborted'}));
  const page = await newPage(`/operations/${id}`);
  const confirm = async (button, action = button) => {
    await page.locator('#content').getByRole('button', {name: button, exact: true}).click();
    await page.getByRole('dialog').getByRole('button', {name: action, exact: true}).click();
  };
  const isSuspended = async (wanted) =>
    until(async () => assert.equal((await call('get_operation', {operation_id: id})).suspended, wanted), `suspended: ${wanted}`);
  await confirm('Suspend');
  await isSuspended(true);
  await confirm('Resume');
  await isSuspended(false);
  await page.locator('#content').getByRole('button', {name: 'Pool and weight'}).click();
  await page.getByRole('dialog').getByLabel('Weight').fill('7');
  await page.getByRole('dialog').getByRole('button', {name: 'Save'}).click();
  await until(async () => {
    const operation = await call('get_operation', {operation_id: id});
    assert.equal(operation.runtime_parameters.scheduling_options_per_pool_tree.default.weight, 7);
  }, 'the weight is set');
  await confirm('Abort');
  await until(async () => assert.equal((await call('get_operation', {operation_id: id})).state, 'aborted'), 'it is aborted');
  await until(async () => assert.equal(await page.getByRole('button', {name: 'Abort', exact: true}).count(), 0), 'it cannot be aborted again');
  page.mistakes();
});

test('an operation is moved, loses a job and is completed', async () => {
  const id = await startOperation(sleeper({title: 'to be completed'}));
  const running = () => call('list_jobs', {operation_id: id, job_state: 'running'});
  const {jobs} = await until(async () => {
    const list = await running();
    assert.equal(list.jobs.length, 1);
    return list;
  }, 'its job runs');
  const page = await newPage(`/operations/${id}`);
  const content = page.locator('#content');
  await content.getByRole('button', {name: 'Pool and weight'}).click();
  await page.getByRole('dialog').getByLabel('Pool').fill('production');
  await page.getByRole('dialog').getByRole('button', {name: 'Save'}).click();
  await until(async () => {
    const {runtime_parameters: now} = await call('get_operation', {operation_id: id});
    assert.equal(now.scheduling_options_per_pool_tree.default.pool, 'production');
  }, 'it is in its new pool');
  await page.getByRole('tab', {name: 'Jobs'}).click();
  await page.getByRole('table', {name: 'Jobs'}).getByRole('button', {name: jobs[0].id}).click();
  await page.getByRole('dialog').getByRole('tab', {name: 'Details'}).click();
  await page.getByRole('dialog').getByRole('button', {name: 'Abort the job'}).click();
  const question = page.getByRole('dialog', {name: 'Abort the job'});
  await question.getByRole('button', {name: 'Abort', exact: true}).click();
  await until(async () => assert.equal((await call('get_job', {operation_id: id, job_id: jobs[0].id})).state, 'aborted'), 'the job is aborted');
  await question.waitFor({state: 'detached'}); // otherwise Escape would close the question, and not the job behind it
  await page.keyboard.press('Escape');
  await until(async () => assert.equal(await page.getByRole('dialog').count(), 0), 'the dialogs are closed');
  await content.getByRole('button', {name: 'Complete', exact: true}).click();
  await page.getByRole('dialog').getByRole('button', {name: 'Complete', exact: true}).click();
  await until(async () => assert.equal((await call('get_operation', {operation_id: id})).state, 'completed'), 'it is completed');
  page.mistakes();
});

test('a table is saved as CSV and as JSON', async () => {
  const page = await newPage('/nodes');
  const {nodes} = await call('list_nodes');
  await shows(page, nodes[0].address);
  for (const [kind, holds] of [
    ['CSV', (text) => assert.equal(text.trim().split('\n').length, nodes.length + 1)],
    ['JSON', (text) => assert.deepEqual(JSON.parse(text).map((node) => node.address).sort(), nodes.map((node) => node.address).sort())],
  ]) {
    await page.getByRole('button', {name: 'Export'}).click();
    const download = page.waitForEvent('download');
    await page.getByRole('menuitem', {name: kind}).click();
    const file = await download;
    assert.equal(file.suggestedFilename(), `nodes.${kind.toLowerCase()}`);
    holds(await readFile(await file.path(), 'utf8'));
  }
  page.mistakes();
});

test('a node is kept from jobs with a reason, and the request is taken back', async () => {
  const {nodes} = await call('list_nodes');
  const node = nodes.at(-1).address;
  const page = await newPage(`/nodes/${node}`);
  const flag = (name, wanted) => until(async () => assert.equal(await get(`//sys/cluster_nodes/${node}/@${name}`), wanted), `${name}: ${wanted}`);
  for (const [button, name] of [['Disable', 'disable_scheduler_jobs'], ['Ban', 'banned']]) {
    await page.locator('#content').getByRole('button', {name: button, exact: true}).click();
    await page.getByRole('dialog').getByLabel('Reason').fill('a <b>disk</b> is changed');
    await page.getByRole('dialog').getByRole('button', {name: button, exact: true}).click();
    await flag(name, true);
    await shows(page, 'a <b>disk</b> is changed');
    await page.locator('#content').getByRole('button', {name: 'Remove', exact: true}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Remove', exact: true}).click();
    await flag(name, false);
    await until(async () => assert.equal(await page.getByRole('dialog').count(), 0), 'the dialog is closed');
  }
  page.mistakes();
});

test('a move to a pool that cannot be is refused with the reason', async () => {
  const id = await startOperation(sleeper({title: 'stays'}));
  const page = await newPage(`/operations/${id}`);
  await page.locator('#content').getByRole('button', {name: 'Pool and weight'}).click();
  await page.getByRole('dialog').getByLabel('Weight').fill('-1');
  await page.getByRole('dialog').getByRole('button', {name: 'Save'}).click();
  await shows(page, 'The server refused the request');
  await shows(page, 'weight');
});

test('texts of users are texts', async () => {
  const markup = '<img src=x onerror="document.title=\'owned\'"><b>bold</b>';
  const id = await startOperation({
    title: markup, pool: 'adhoc', annotations: {note: markup}, max_failed_job_count: 1,
    tasks: {t: {job_count: 1, command: `echo '<script>document.title="owned"</script>' >&2; exit 1`, cpu_limit: 0.1, memory_limit: 67108864}},
  });
  const page = await newPage(`/operations/${id}`);
  await shows(page, markup);
  await until(async () => assert.equal((await call('get_operation', {operation_id: id})).state, 'failed'), 'it failed');
  // The page leads to the error output of the first job that failed.
  const failure = page.locator('section', {hasText: 'The first job that failed'});
  await failure.getByText('<script>document.title="owned"</script>').waitFor();
  await failure.getByRole('link', {name: /^\d+-/}).click();
  await page.getByRole('dialog').getByText('<script>document.title="owned"</script>').waitFor();
  const list = await newPage(`/operations?text=onerror`);
  await shows(list, markup);
  for (const each of [page, list]) {
    assert.equal(await each.locator('#root img').count(), 0);
    assert.equal(await each.locator('#root b').count(), 0);
    assert.notEqual(await each.title(), 'owned');
    each.mistakes();
  }
});

test('a server that does not answer leaves what was there, and says so', async () => {
  const page = await newPage('/');
  await page.getByRole('heading', {name: 'Tree default'}).waitFor();
  await page.route('**/api/**', (route) => route.abort());
  await shows(page, 'The scheduler does not answer');
  await page.getByRole('heading', {name: 'Tree default'}).waitFor();
  await page.unroute('**/api/**');
  await until(async () => assert.equal(await page.getByText('The scheduler does not answer').count(), 0), 'the banner goes');
});
