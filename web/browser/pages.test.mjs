// What is on screen equals what the API says.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {call, close, get, newPage, open, shows, sleeper, startOperation, until} from './harness.mjs';

const orchid = '//sys/scheduler/orchid/scheduler';
let operation;

before(begin);
after(close);

async function begin() {
  await open();
  operation = await startOperation(sleeper({title: 'for the pages'}));
}

test('the home page has the capacity of the cluster', async () => {
  const page = await newPage('/');
  const cluster = await call('get_cluster');
  const tree = cluster.pool_trees.default;
  const row = page.locator('tr', {has: page.locator('th', {hasText: /^cpu$/})}).first();
  await row.waitFor();
  assert.equal(await row.locator('td').first().innerText(), String(tree.capacity.cpu));
  await shows(page, `${cluster.node_count} / ${cluster.node_count}`);
  page.mistakes();
});

test('the scheduling page lists every pool with its weight', async () => {
  const page = await newPage('/scheduling?operations=no');
  const pools = await get(`${orchid}/pool_trees/default/pools`, {fields: ['weight', 'is_ephemeral']});
  for (const [name, pool] of Object.entries(pools)) {
    if (name === '<Root>' || pool.is_ephemeral) continue;
    const row = page.getByRole('row', {name: new RegExp(`(^|\\s)${name}(\\s|$)`)}).first();
    await until(async () => assert.equal(await row.getByRole('gridcell').nth(1).innerText(), String(pool.weight)), `weight of ${name}`);
  }
  page.mistakes();
});

test('modes, numbers, filter and order are in the address', async () => {
  const page = await newPage('/scheduling?mode=integral&numbers=absolute&filter=production');
  const pool = await get(`${orchid}/pool_trees/default/pools/production`);
  const row = page.getByRole('row', {name: /production/}).first();
  await row.waitFor();
  assert.match(await row.innerText(), new RegExp(`\\b${pool.specified_burst_guarantee_resources.cpu}\\b`));
  assert.equal(await page.getByRole('row', {name: /^research/}).count(), 0);
  await page.getByRole('radio', {name: 'CPU', exact: true}).check({force: true});
  await until(() => assert.match(page.url(), /mode=cpu/), 'the mode is in the address');
  await page.getByRole('button', {name: 'Usage', exact: true}).click();
  await until(() => assert.match(page.url(), /sort=-usage/), 'the order is in the address');
  await page.getByLabel('Filter by name').fill('res');
  await until(async () => {
    assert.match(page.url(), /filter=res/);
    assert.equal(await page.getByRole('link', {name: 'research', exact: true}).count(), 1);
    assert.equal(await page.getByRole('link', {name: 'production', exact: true}).count(), 0);
  }, 'the filter is in the address');
  page.mistakes();
});

test('the tree is walked by keyboard', async () => {
  const page = await newPage('/scheduling?operations=no');
  const grid = page.getByRole('treegrid');
  await page.getByRole('link', {name: 'research', exact: true}).waitFor();
  await grid.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await until(() => assert.match(page.url(), /\/scheduling\/default\//), 'Enter opens a pool');
  page.mistakes();
});

test('the page of a pool has its guarantee, bucket and charts', async () => {
  const page = await newPage('/scheduling/default/production');
  await shows(page, 'Integral guarantee');
  const pool = await get(`${orchid}/pool_trees/default/pools/production`);
  await shows(page, `${pool.specified_burst_guarantee_resources.cpu} CPU`);
  await page.getByRole('tab', {name: 'Charts'}).click();
  await until(async () => assert.ok((await page.locator('.chart canvas').count()) >= 4), 'charts are drawn');
  page.mistakes();
});

test('operations are listed and filtered as the API does', async () => {
  const page = await newPage(`/operations?text=${encodeURIComponent('for the pages')}`);
  const list = await call('list_operations', {filter: 'for the pages', include_counters: true});
  for (const row of list.operations) await shows(page, row.id);
  assert.equal(await page.getByRole('table', {name: 'Operations'}).getAttribute('aria-rowcount'), String(list.operations.length + 1));
  page.mistakes();
});

test('the page of an operation has its specification with the CPU monitor in force', async () => {
  const page = await newPage(`/operations/${operation}?tab=spec`);
  const {full_spec: spec} = await call('get_operation', {operation_id: operation});
  await shows(page, 'job_cpu_monitor');
  for (const [key, value] of Object.entries(spec.job_cpu_monitor)) {
    const item = page.locator('.facts__item', {has: page.locator('dt', {hasText: new RegExp(`^${key}$`)})});
    assert.equal(await item.locator('dd').innerText(), JSON.stringify(value), key);
  }
  await page.getByRole('radio', {name: 'Provided'}).check({force: true});
  await shows(page, '"sleep 600"');
  await page.getByRole('radio', {name: 'Unrecognised'}).check({force: true});
  await shows(page, 'Every option was understood');
  page.mistakes();
});

test('jobs, statistics, why, timeline and events of an operation are there', async () => {
  const {jobs} = await until(async () => {
    const list = await call('list_jobs', {operation_id: operation});
    assert.ok(list.jobs.length > 0);
    return list;
  }, 'the operation has a job');
  const page = await newPage(`/operations/${operation}?tab=jobs`);
  await shows(page, jobs[0].id);
  await page.getByRole('tab', {name: 'Statistics'}).click();
  await shows(page, 'Memory: kept and used');
  await page.getByRole('tab', {name: 'Why'}).click();
  await shows(page, 'What stands in the way');
  await page.getByRole('tab', {name: 'Timeline'}).click();
  await until(async () => assert.ok((await page.locator('.timeline__job').count()) >= 1), 'a job on the time line');
  await page.getByRole('tab', {name: 'Events'}).click();
  await shows(page, 'job started');
  page.mistakes();
});

test('nodes are listed, drawn and described', async () => {
  const page = await newPage('/nodes');
  const {nodes} = await call('list_nodes');
  for (const node of nodes) await shows(page, node.address);
  await page.getByRole('radio', {name: 'Packing map'}).check({force: true});
  await until(async () => assert.equal(await page.locator('.packing__node').count(), nodes.length), 'every node is on the map');
  await page.locator('.packing__node').first().click();
  await shows(page, 'Allocated by class');
  page.mistakes();
});

test('events and preemptions have pages', async () => {
  const page = await newPage('/events?type=node_registered');
  await shows(page, 'node registered');
  await page.getByRole('link', {name: 'Preemptions'}).click();
  const {events} = await call('list_events', {types: ['job_preempted'], limit: 1});
  await shows(page, events.length > 0 ? 'Who lost to whom' : 'Nobody was preempted');
  page.mistakes();
});

test('search finds a pool and goes there', async () => {
  const page = await newPage('/');
  await page.getByRole('heading', {name: 'Cluster'}).waitFor();
  await page.keyboard.press('/');
  await page.getByRole('combobox', {name: 'Search'}).fill('resea');
  await page.getByRole('option', {name: /research/}).first().waitFor();
  await page.keyboard.press('Enter');
  await until(() => assert.match(page.url(), /\/scheduling\/default\/research/), 'Enter goes to the pool');
  page.mistakes();
});

test('the page speaks Russian', async () => {
  const page = await newPage('/scheduling', {locale: 'ru-RU'});
  await shows(page, 'Планирование');
  await shows(page, 'Занято / доля');
  assert.equal(await page.locator('html').getAttribute('lang'), 'ru');
  page.mistakes();
});

test('an address without a page says so', async () => {
  const page = await newPage('/nowhere');
  await shows(page, 'There is no such page');
  const missing = await newPage('/operations/1-2-3-4');
  await shows(missing, 'No such operation');
});
