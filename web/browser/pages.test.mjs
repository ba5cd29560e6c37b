// The screen agrees with the API.
import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import {after, afterEach, before, test} from 'node:test';

import {call, close, closePages, get, newPage, open, shows, sleeper, startOperation, textOf, until} from './harness.mjs';

const orchid = '//sys/scheduler/orchid/scheduler';
let operation;

before(begin);
afterEach(closePages);
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
  await shows(page, 'Strong guarantees now');
  // What is wrong is said: here a node that is lost and one that the last leader knew.
  await page.route('**/api/v4/get_cluster', (route) =>
    route.fulfill({
      json: {
        ...cluster, online_node_count: cluster.node_count - 1,
        held_back: [{
          address: 'node-9', pool_tree: 'default', job_count: 4, operation_count: 1, resource_usage: {cpu: 3, memory: 2 ** 30}, until: '2026-11-16T07:00:00Z', everything: false,
        }],
      },
    }));
  await shows(page, 'After a takeover the scheduler waits for 1 node of the last leader');
  await shows(page, '1 node is not online');
  assert.match(await page.getByRole('region', {name: 'Held back'}).innerText(), /node-9\s+4\s+3 cpu, 1 GiB memory/);
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
  const sum = page.getByRole('row', {name: /Sum of/});
  const top = Object.entries(await get(`${orchid}/pool_trees/default/pools`, {fields: ['parent']})).filter(([, pool]) => pool.parent === '<Root>').length;
  await until(async () => assert.match(await sum.innerText(), new RegExp(`^Sum of ${top} pools`)), 'the footer counts the pools at the top');
  await page.getByRole('button', {name: 'Columns', exact: true}).click();
  await page.getByRole('checkbox', {name: 'Weight'}).uncheck({force: true});
  await page.keyboard.press('Escape');
  await until(async () => assert.equal(await page.getByRole('columnheader', {name: 'Weight'}).count(), 0), 'the column is hidden');
  await page.reload();
  await page.getByRole('button', {name: 'Columns: 1 hidden'}).waitFor();
  assert.equal(await page.getByRole('columnheader', {name: 'Weight'}).count(), 0, 'the browser remembers it');
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

test('promises: the calendar has a verdict for each day, and a day opens its causes', async () => {
  const month = new Date().toISOString().slice(0, 7);
  const line = (day, due, broken, causes = []) => ({
    pool_tree: 'default', pool: 'production', resource: 'cpu', promised: 7200, asked: due, due, got: due - broken, unclaimed: 7200 - due, short: broken, broken,
    kept: due > 0 ? 1 - broken / due : null, kept_time: due > 0 ? 1 : null, causes, ...(day ? {day} : {}),
  });
  const cause = [{cause: 'node_loss', amount: 1800, own: false}];
  let lines;
  const page = await newPage('/scheduling/default/production');
  await page.route('**/api/v4/get_report', async (route) => {
    const {from_time: from, by} = route.request().postDataJSON();
    const first = from.slice(0, 8);
    lines = by ? [line(`${first}01`, 3600, 1800, cause), line(`${first}02`, 3600, 0), line(`${first}03`, 0, 0)] : [line('', 7200, 1800, cause)];
    await route.fulfill({json: {report: 'guarantees', pool_tree: 'default', from_time: from, to_time: from, pools: lines}});
  });
  await page.getByRole('tab', {name: 'Promises'}).click();
  await shows(page, '75% of what was due was kept');
  // The days of the last month are over, whatever day it is today.
  await page.getByRole('button', {name: 'Previous month'}).click();
  await until(() => assert.match(page.url(), /month=/), 'the month is in the address');
  const day = (number, verdict) => page.getByRole('button', {name: new RegExp(`^${number} \\w+: ${verdict}`)});
  await day(2, 'kept, 100%').waitFor();
  await day(3, 'nothing was due').waitFor();
  await day(2, 'kept').focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await until(() => assert.match(page.url(), /day=\d{4}-\d\d-01/), 'the arrow and Enter choose the first day');
  await page.getByRole('heading', {name: /1 \w+: broken/}).waitFor();
  const row = page.getByRole('region', {name: 'Short by cause'}).getByRole('row', {name: /node loss/});
  assert.match(await row.innerText(), /0\.5 CPU·h\s+50%/);
  assert.equal(await page.getByRole('button', {name: 'Next month'}).isEnabled(), true);
  await shows(page, 'weir report guarantees --tree default --pool production --month ');
  assert.doesNotMatch(page.url(), new RegExp(`month=${month}`));
  page.mistakes();
});

test('reports have what the API says, and are saved as weir report saves them', async () => {
  const page = await newPage('/reports');
  const {pools} = await call('get_report', {report: 'guarantees'});
  const table = page.getByRole('region', {name: 'Promises'});
  for (const pool of pools) await table.getByRole('link', {name: pool.pool, exact: true}).waitFor();
  await page.getByRole('tab', {name: 'Usage'}).click();
  const usage = await call('get_report', {report: 'usage'});
  await page.getByRole('table', {name: 'Report'}).getByRole('link', {name: usage.lines[0].pool, exact: true}).first().waitFor();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', {name: 'Download CSV'}).click();
  const text = await readFile(await (await saved).path(), 'utf8');
  assert.equal(text.split('\r\n')[0], ['from', 'to', ...usage.columns].join(','));
  await shows(page, `weir report usage --tree default --day ${new Date().toISOString().slice(0, 10)} --by pool,user`);
  await page.getByRole('tab', {name: 'Waits'}).click();
  await page.getByRole('columnheader', {name: 'Mean wait'}).waitFor();
  await page.getByRole('tab', {name: 'Savings'}).click();
  await page.getByRole('columnheader', {name: 'Overdrafts'}).waitFor();
  // Who preempted whom, and cycles.
  await page.route('**/api/v4/get_report', (route) =>
    route.fulfill({json: {
      report: 'preemptions', pool_tree: 'default', from_time: '', to_time: '', columns: ['victim'],
      lines: [{tree: 'default', victim: 'research', winner: 'production', rule: 'aggressive', jobs: 7, wasted_jobs: 2, lost_cpu_core_s: 7200, net_cpu_core_s: -3600}],
      watch: {minutes: 5, proven: 4, cycles: 1},
      cycles: [{id: 1, timestamp: '2026-11-16T07:00:00Z', event_type: 'preemption_cycle', operations: ['1-2-3-4'], pools: ['research', 'production'], premises: 'victim_starves'}],
    }}));
  await page.getByRole('tab', {name: 'Preemptions'}).click();
  await shows(page, 'In 4 of 5 minutes with preemptions cycles are proven absent. 1 cycle was found.');
  assert.match(await page.getByRole('row', {name: /aggressive/}).innerText(), /research\s+production\s+aggressive\s+7\s+2\s+2\s/);
  await page.getByRole('region', {name: 'Cycles'}).getByText('victim starves').waitFor();
  // A refusal is shown in the server's words.
  await page.unroute('**/api/v4/get_report');
  await page.goto(new URL('/reports?tree=moon', page.url()).href);
  await shows(page, 'There is no pool tree "moon"');
  page.mistakes();
});

test('forecast accuracy: too few scored forecasts are no statement; enough are one with its chance', async () => {
  const page = await newPage('/reports?report=waits');
  await page.getByRole('columnheader', {name: 'Mean wait'}).waitFor();
  const common = {pool_tree: 'default', pool: 'research', median_width_s: 60, pinball_s: 3};
  await page.route('**/api/v4/get_report', (route) =>
    route.fulfill({json: {
      report: 'forecasts', pool_tree: 'default', from_time: '', to_time: '', columns: ['pool', 'target'],
      lines: [
        {...common, target: 'start', settled: 3, held: 3, coverage: 1, uncalibrated: 5, compared: 0},
        {...common, target: 'finish', settled: 200, held: 120, coverage: 0.6, uncalibrated: 0, compared: 50, compared_pinball_s: 4, compared_ensemble_s: 8, compared_history_s: 6},
      ],
    }}));
  await page.getByRole('tab', {name: 'Forecast accuracy'}).click();
  await shows(page, 'Too few forecasts are scored to say how well they hold');
  await shows(page, '8 forecasts scored');
  await shows(page, '60% of 200 intervals held; 90% should');
  await shows(page, '90% is outside');
  assert.match(await page.getByRole('table', {name: 'Finish of operations: loss'}).innerText(), /Published\s+4 s\s+Ensemble alone\s+8 s\s+History alone\s+6 s/);
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
  await shows(page, 'All options are recognised');
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
  await shows(page, 'Memory: reserved and used');
  await page.getByRole('tab', {name: 'Why'}).click();
  await shows(page, 'What blocks it');
  await page.getByRole('tab', {name: 'Timeline'}).click();
  await until(async () => assert.ok((await page.locator('.timeline__job').count()) >= 1), 'a job on the time line');
  await page.getByRole('tab', {name: 'Events'}).click();
  await shows(page, 'job started');
  page.mistakes();
});

test('the log of a job grows while it runs, and its files are there when it has ended', async () => {
  const id = await startOperation({
    title: 'writes a log', pool: 'research',
    tasks: {t: {
      job_count: 1, cpu_limit: 0.1, memory_limit: 64 * 2 ** 20, artifact_paths: ['out'],
      command: 'while [ ! -e first ]; do sleep 0.1; done; echo first line >&2; while [ ! -e second ]; do sleep 0.1; done; echo last line >&2; mkdir out; echo 42 > out/answer',
    }},
  });
  const job = await until(async () => {
    const {jobs} = await call('list_jobs', {operation_id: id, job_state: 'running'});
    assert.equal(jobs.length, 1);
    return jobs[0].id;
  }, 'the job runs');
  const page = await newPage(`/operations/${id}?tab=jobs&shown=${job}`);
  await page.getByRole('dialog').getByRole('tab', {name: 'Error output'}).click();
  await shows(page, 'The job has written nothing yet');
  const create = (file) => call('poll_job_shell', {job_id: job, parameters: {operation: 'spawn', command: `touch ${file}`, terminal: false}});
  await create('first');
  const log = page.getByRole('log', {name: 'Error output'});
  await until(async () => assert.equal(await log.innerText(), 'first line\n'), 'the first line is there');
  await create('second');
  await until(async () => assert.equal(await log.innerText(), 'first line\nlast line\n'), 'the last line is there');
  await shows(page, 'The job has ended.');
  await page.keyboard.press('Escape');
  await page.getByRole('tab', {name: 'Files'}).click();
  await shows(page, 'out/answer');
  const saved = page.waitForEvent('download');
  await page.getByRole('button', {name: `Download the files of job ${job}`}).click();
  assert.equal((await saved).suggestedFilename(), `${job}.tar.zst`);
  page.mistakes();
});

test('memory: what is kept for jobs, and what those that completed used', async () => {
  const id = await startOperation({
    title: 'uses memory', pool: 'research',
    tasks: {t: {job_count: 4, command: 'head -c 20M /dev/zero | tail -c 20M | sleep 2', cpu_limit: 0.1, memory_limit: 67108864}},
  });
  await until(async () => assert.equal((await call('get_operation', {operation_id: id})).state, 'completed'), 'it completes');
  const {jobs} = await call('list_jobs', {operation_id: id, job_state: 'completed'});
  const measured = jobs.filter((job) => job.statistics.user_job?.memory_limit).length;
  const page = await newPage(`/operations/${id}?tab=memory`);
  await shows(page, 'Completed jobs by fraction of the limit used');
  const counts = (await page.locator('.histogram__count').allInnerTexts()).map(Number);
  assert.equal(counts.reduce((sum, n) => sum + n, 0), measured);
  const fact = page.locator('.facts__item', {has: page.locator('dt', {hasText: /^Memory limit$/})});
  assert.equal(await fact.locator('dd').innerText(), '64 MiB');
  page.mistakes();
});

test('CPU: limit and usage of each job over time', async () => {
  const page = await newPage(`/operations/${operation}?tab=cpu`);
  await until(async () => {
    const {jobs} = await call('list_jobs', {operation_id: operation, job_state: 'running'});
    const text = await textOf(page);
    for (const part of [jobs[0].id, `requested ${jobs[0].resources.cpu}, limit ${jobs[0].resource_usage.cpu}`]) assert.ok(text.includes(part), text);
  }, 'the job is there with its limit of now');
  await until(async () => assert.ok((await page.locator('.chart canvas').count()) >= 2), 'a chart of all and one of the job');
  page.mistakes();
});

test('CPU: a job that has ended is drawn from what the server kept', async () => {
  const id = await startOperation({title: 'ends', pool: 'research', tasks: {t: {job_count: 1, command: 'sleep 8', cpu_limit: 0.1, memory_limit: 67108864}}});
  await until(async () => assert.equal((await call('get_operation', {operation_id: id})).state, 'completed'), 'it completes');
  const {jobs} = await call('list_jobs', {operation_id: id, job_state: 'completed', attributes: ['cpu_history']});
  assert.ok(jobs[0].cpu_history.limit.length >= 2, JSON.stringify(jobs));
  const page = await newPage(`/operations/${id}?tab=cpu`);
  await page.getByRole('button', {name: jobs[0].id}).click();
  await page.getByRole('heading', {name: `Job ${jobs[0].id}`}).waitFor();
  await until(async () => assert.equal(await page.locator('.chart canvas').count(), 1), 'its chart is drawn');
  await until(() => assert.match(page.url(), /job=/), 'the job is in the address');
  page.mistakes();
});

test('statistics are a tree that folds by keyboard', async () => {
  const page = await newPage(`/operations/${operation}?tab=jobs`);
  await page.getByRole('table', {name: 'Jobs'}).getByRole('button', {name: /^\d+-/}).first().click();
  await page.getByRole('dialog').getByRole('tab', {name: 'Statistics'}).click();
  const tree = page.getByRole('treegrid', {name: 'Statistics'});
  await tree.getByText('job_proxy', {exact: true}).waitFor();
  const rows = () => tree.getAttribute('aria-rowcount').then(Number);
  const all = await rows();
  await tree.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowLeft');
  await until(async () => assert.ok((await rows()) < all), 'the branch is folded');
  await page.keyboard.press('ArrowRight');
  await until(async () => assert.equal(await rows(), all), 'the branch is open again');
  page.mistakes();
});

test('the share of a pool is derived on a click', async () => {
  const page = await newPage('/scheduling/default/production');
  await page.getByRole('button', {name: /strong \+/}).click();
  const dialog = page.getByRole('dialog', {name: 'Where the fair share comes from'});
  const pools = await get(`${orchid}/pool_trees/default/pools`, {fields: ['weight']});
  for (const name of ['production', '<Root>']) {
    const row = dialog.locator('tr', {has: page.getByRole('link', {name, exact: true})});
    await row.waitFor();
    assert.equal(await row.locator('td').last().innerText(), String(pools[name].weight), name);
  }
  for (const width of [1280, 390]) {
    await page.setViewportSize({width, height: 800});
    const [inner, outer] = await dialog.locator('.scroll').evaluate((e) => [e.scrollWidth, e.clientWidth]);
    assert.ok(inner <= outer + 1, `at ${width} pixels the table of ${inner} pixels fits into ${outer}`);
  }
  await page.setViewportSize({width: 1280, height: 800});
  await page.keyboard.press('Escape');
  await until(async () => assert.equal(await page.getByRole('dialog').count(), 0), 'Escape closes it');
  await page.getByRole('button', {name: 'Add production to favourites'}).click();
  await page.getByRole('link', {name: 'Scheduling', exact: true}).click();
  await page.getByRole('navigation', {name: 'Favourites'}).getByRole('link', {name: 'production'}).waitFor();
  page.mistakes();
});

test('an example is simulated, and the report has what the API says', async () => {
  const page = await newPage('/simulator?example=starvation&seed=3');
  await page.getByRole('button', {name: 'Run', exact: true}).click();
  await shows(page, 'all hold');
  const {report} = await call('simulate', {example: 'starvation', seed: 3});
  const tile = (title) => page.locator('.tile', {hasText: title}).locator('.tile__value').innerText();
  assert.equal(await tile('Jobs completed'), report.cluster.jobs.completed.toLocaleString('en-US'));
  assert.equal(await tile('Preemptions'), report.cluster.jobs.preempted.toLocaleString('en-US'));
  for (const pool of report.pools) await page.getByRole('rowheader', {name: pool.name, exact: true}).first().waitFor();
  await shows(page, '--seed 3');
  assert.ok((await page.locator('.chart canvas').count()) >= 4);
  page.mistakes();
});

test('what-if compares the cluster without and with changes; a wrong change is refused in words', async () => {
  const page = await newPage('/what-if');
  const {nodes} = await call('list_nodes');
  const ask = async (text) => {
    await page.getByLabel('Changes').fill(text);
    await page.getByRole('button', {name: 'Compare', exact: true}).click();
  };
  await ask('changes: [{pool: nowhere, set: {weight: 2}}]');
  await shows(page, 'The server refused the request');
  await page.getByRole('button', {name: 'Nodes are added'}).click();
  await ask(await page.getByLabel('Changes').inputValue());
  await page.locator('.tile', {hasText: 'Nodes'}).waitFor();
  assert.equal(await page.locator('.tile', {hasText: 'Nodes'}).locator('.tile__value').innerText(), String(nodes.length + 2));
  await shows(page, `was ${nodes.length}`);
  await page.getByRole('heading', {name: 'Pools that differ'}).waitFor();
  await shows(page, 'weir what-if - --for 2h');
  page.mistakes();
});

test('an uploaded scenario is run as a text; a wrong one is refused in words', async () => {
  const page = await newPage('/simulator');
  const upload = (text) =>
    page.locator('input[type=file]').setInputFiles({name: 'own.yaml', mimeType: 'text/yaml', buffer: Buffer.from(text)});
  const run = () => page.getByRole('button', {name: 'Run', exact: true}).click();
  await page.getByRole('button', {name: 'Upload a scenario'}).waitFor();
  await upload('nodes: [{name: n, resources: {cpu: 4}}]\npools: {p: {}}\ncolour: red\n');
  await run();
  await shows(page, 'The server refused the request');
  await shows(page, 'unknown option');
  const markup = '<img src=x onerror="document.title=1">';
  await upload(`name: '${markup}'
duration: 1h
nodes: [{name: n, resources: {cpu: 4, memory: 16GiB}}]
pools: {p: {}}
operations: [{name: '<b>op</b>', pool: p, arrival: 0s, job_count: 9, duration: 1m}]
`);
  await run();
  await page.getByRole('heading', {name: markup}).waitFor();
  await shows(page, '<b>op</b>');
  assert.equal(await page.locator('#root img, #root b').count(), 0);
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
  const {jobs} = await call('list_jobs', {operation_id: operation, job_state: 'running'});
  const own = await newPage(`/nodes/${jobs[0].address}`);
  const row = own.getByRole('row', {name: new RegExp(jobs[0].id)});
  await row.waitFor();
  await row.getByRole('link', {name: operation.split('-').slice(0, 2).join('-')}).waitFor();
  await shows(own, 'Isolation of jobs');
  const {isolation} = nodes.find((node) => node.address === jobs[0].address);
  await shows(own, isolation.level);
  assert.match(await row.innerText(), new RegExp(`/ ${(jobs[0].resources.memory / 2 ** 20).toPrecision(3).replace('.', '\\.')} MiB`));
  page.mistakes();
  own.mistakes();
});

test('events and preemptions have pages', async () => {
  const page = await newPage('/events?type=node_registered');
  await shows(page, 'node registered');
  await page.getByRole('link', {name: 'Preemptions'}).click();
  await until(async () => {
    const {events} = await call('list_events', {types: ['job_preempted'], limit: 1});
    assert.ok((await textOf(page)).includes(events.length > 0 ? 'Preemptions between pools' : 'No preemptions'));
  }, 'preemptions, or that there were none');
  page.mistakes();
});

test('search finds a pool and goes there', async () => {
  const page = await newPage('/');
  await page.getByRole('heading', {name: 'Cluster'}).waitFor();
  await page.keyboard.press('/');
  await page.getByRole('combobox', {name: 'Search'}).waitFor();
  await until(async () => assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'combobox'), 'the field has the focus');
  await page.keyboard.type('resea');
  await page.getByRole('option', {name: /research/}).first().waitFor();
  await page.keyboard.press('Enter');
  await until(() => assert.match(page.url(), /\/scheduling\/default\/research/), 'Enter goes to the pool');
  page.mistakes();
});

test('the page speaks Russian', async () => {
  const page = await newPage('/scheduling', {locale: 'ru-RU'});
  await shows(page, 'Планирование');
  await shows(page, 'Потребление / fair share');
  assert.equal(await page.locator('html').getAttribute('lang'), 'ru');
  page.mistakes();
});

test('the page has a strict policy and no script of its own in its text', async () => {
  const page = await newPage('/scheduling');
  const response = await page.reload();
  const policy = response.headers()['content-security-policy'];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const text = await response.text();
  assert.doesNotMatch(text, /<script(?![^>]* src=)|<style|style=|\son\w+=/);
  await page.getByRole('treegrid').waitFor();
  page.mistakes();
});

for (const path of ['/', '/scheduling', '/scheduling/default/production?tab=attributes', '/operations', '/nodes?view=map', '/reports?report=usage', '/simulator']) {
  test(`everything on ${path} is reached by keyboard`, async () => {
    const page = await newPage(path);
    await page.locator('#content h1').first().waitFor();
    // Elements that come and go with each refresh cannot be counted, so the page must not refresh.
    await page.waitForLoadState('networkidle').catch(() => undefined);
    await page.route('**/api/**', () => undefined);
    const wanted = await page.evaluate(() => {
      const list = [...document.querySelectorAll('a[href], button, input, textarea, [tabindex="0"]')].filter((e) => {
        const group = e.type === 'radio' && !e.checked; // arrow keys move among them
        return e.tabIndex >= 0 && !e.disabled && !group && e.checkVisibility({visibilityProperty: true, contentVisibilityAuto: true});
      });
      list.forEach((e, i) => (e.dataset.wanted = String(i)));
      return list.length;
    });
    assert.ok(wanted > 10, `${wanted} things to reach`);
    // A long table adds rows while focus moves through it, so the walk ends only when the first element comes
    // up again.
    const reached = new Set();
    let first;
    for (let rounds = 0; rounds < 3 && reached.size < wanted; ) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => document.activeElement?.dataset.wanted);
      if (at === undefined) continue;
      first ??= at;
      if (at === first) rounds++;
      reached.add(at);
    }
    const missed = await page.evaluate(
      (have) => [...document.querySelectorAll('[data-wanted]')].filter((e) => !have.includes(e.dataset.wanted)).map((e) => e.outerHTML.slice(0, 160)), [...reached],
    );
    assert.deepEqual(missed, []);
  });
}

test('an address without a page says so, and what may have been meant', async () => {
  const page = await newPage('/nowhere');
  await shows(page, 'Page not found');
  const {nodes} = await call('list_nodes', {limit: 1});
  const short = operation.split('-').slice(0, 2).join('-');
  for (const [path, text, near] of [
    ['/scheduling/default/resaerch', 'There is no pool resaerch in tree default', 'research'],
    [`/nodes/${nodes[0].address}0`, `There is no node ${nodes[0].address}0`, nodes[0].address],
    [`/operations/${short}`, `There is no operation ${short}`, 'for the pages'],
  ]) {
    await page.goto(new URL(path, page.url()).href);
    await shows(page, text);
    await page.locator('.missing').getByRole('link', {name: near, exact: true}).waitFor();
  }
  page.mistakes();
});
