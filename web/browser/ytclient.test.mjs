// Runs YTsaurus's own JavaScript client, which its web interface uses, unmodified against weir. Version 4 of
// the API wraps answers by name; version 3 does not.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {after, before, test} from 'node:test';

import {base, call, sleeper, startOperation, until} from './harness.mjs';

const yt = createRequire(import.meta.url)('@ytsaurus/javascript-wrapper')();

// run makes names unique, so that the tests can be repeated on the same cluster.
const run = Date.now().toString(36);

before(() => {
  yt.setup.setGlobalOption('proxy', new URL(base).host);
  yt.setup.setGlobalOption('secure', false);
  yt.setup.setGlobalOption('useHeavyProxy', false);
  yt.setup.setGlobalOption('authentication', {type: 'none'});
  yt.setup.setGlobalOption('timeout', 60_000);
});

for (const version of ['v3', 'v4']) {
  const api = yt[version];
  const value = async (promise, name = 'value') => {
    let answer = await promise;
    if (typeof answer === 'string' && /^["{]/.test(answer)) answer = JSON.parse(answer); // the client leaves the answers of some commands as text
    return version === 'v4' ? answer[name] : answer;
  };
  const pool = `js-${version}-${run}`;
  const path = `//sys/pool_trees/default/${pool}`;
  const get = (from, more = {}) => value(api.get({path: from, ...more}));
  const refused = async (promise, code, words) => {
    const error = await promise.then((answer) => assert.fail(`it was answered: ${JSON.stringify(answer)}`), (reason) => reason);
    const all = JSON.stringify(error);
    assert.match(all, words);
    assert.ok(all.includes(`"code":${code},`), `code ${code} in ${all}`);
  };

  test(`${version}: a pool from its creation to its removal`, async () => {
    const id = await value(api.create({type: 'scheduler_pool', attributes: {name: pool, pool_tree: 'default', weight: 2}}), 'object_id');
    assert.match(id, /^[0-9a-f]+(-[0-9a-f]+){3}$/);
    after(() => api.remove({path}).catch(() => undefined));
    assert.equal(await get(`${path}/@id`), id);
    assert.equal(await value(api.exists({path})), true);
    assert.equal(await get(`${path}/@weight`), 2);
    await api.set({path: `${path}/@weight`}, 3.5);
    assert.equal(await get(`${path}/@weight`), 3.5);
    await api.set({path: `${path}/@strong_guarantee_resources`}, {cpu: 1});
    assert.deepEqual(await get(`${path}/@strong_guarantee_resources`), {cpu: 1});
    assert.ok((await value(api.list({path: '//sys/pools'}))).includes(pool));
    assert.deepEqual(await get(path, {attributes: ['weight']}), {$attributes: {weight: 3.5}, $value: {}});
    await api.move({source_path: path, destination_path: `${path}-moved`});
    assert.equal(await value(api.exists({path})), false);
    await api.move({source_path: `${path}-moved`, destination_path: path});
    await refused(api.set({path: `${path}/@weight`}, -1), 1, /weight/);
    await refused(api.get({path: '//sys/pool_trees/default/nobody'}), 500, /nobody/);
    await api.remove({path});
    assert.equal(await value(api.exists({path})), false);
  });

  test(`${version}: many requests in one`, async () => {
    const answers = await value(
      api.executeBatch({
        requests: [
          {command: 'get', parameters: {path: '//sys/pools/research/@name'}},
          {command: 'get', parameters: {path: '//sys/pools/nobody/@name'}},
          {command: 'list', parameters: {path: '//sys/pool_trees'}},
        ],
      }),
      'results',
    );
    assert.equal(answers.length, 3);
    assert.ok(JSON.stringify(answers[0]).includes('research'));
    assert.equal(answers[1].error.code, 500);
    assert.ok(JSON.stringify(answers[2]).includes('default'));
  });

  test(`${version}: an operation and its job`, async () => {
    const title = `seen by ${version} ${run}`;
    const operation_id = await startOperation(sleeper({title}));
    const seen = () => api.getOperation({operation_id});
    await until(async () => assert.equal((await seen()).state, 'running'), 'it runs');
    assert.equal((await seen()).spec.title, title);
    const {operations} = await api.listOperations({filter: title, limit: 10});
    assert.deepEqual(operations.map((one) => one.id), [operation_id]);
    const job = await until(async () => {
      const {jobs} = await api.listJobs({operation_id});
      assert.equal(jobs.length, 1);
      assert.equal(jobs[0].state, 'running');
      return jobs[0];
    }, 'its job runs');
    assert.equal((await api.getJob({operation_id, job_id: job.id})).address, job.address);
    await api.suspendOperation({operation_id});
    await until(async () => assert.equal((await seen()).suspended, true), 'it is suspended');
    await api.resumeOperation({operation_id});
    await until(async () => assert.equal((await seen()).suspended, false), 'it is resumed');
    await api.updateOperationParameters({operation_id, _parameters: {weight: 6}});
    await until(async () => assert.equal((await seen()).runtime_parameters.scheduling_options_per_pool_tree.default.weight, 6), 'its weight is 6');
    await api.abortJob({job_id: job.id});
    await until(async () => {
      const {jobs} = await api.listJobs({operation_id, state: 'aborted'});
      assert.deepEqual(jobs.map((one) => one.id), [job.id]);
    }, 'the job is aborted');
    await api.completeOperation({operation_id});
    await until(async () => assert.equal((await seen()).state, 'completed'), 'it is completed');
    await refused(api.abortOperation({operation_id: '1-2-3-4'}), 1915, /1-2-3-4/);
  });

  test(`${version}: the live tree, users and permissions`, async () => {
    const pools = await get('//sys/scheduler/orchid/scheduler/scheduling_info_per_pool_tree/default/fair_share_info/pools');
    assert.ok(pools.research.fair_share_ratio >= 0);
    const group = `group-${version}-${run}`;
    const member = `user-${version}-${run}`;
    await api.create({type: 'group', attributes: {name: group}});
    await api.create({type: 'user', attributes: {name: member}});
    await api.addMember({group, member});
    assert.deepEqual(await get(`//sys/groups/${group}/@members`), [member]);
    await api.removeMember({group, member});
    assert.deepEqual(await get(`//sys/groups/${group}/@members`), []);
    const check = async (user, permission) => (await api.checkPermission({user, permission, path: '//sys/pools/research'})).action;
    assert.equal(await check('root', 'write'), 'allow');
    assert.equal(await check(member, 'write'), 'deny');
  });

  test(`${version}: plain nodes and transactions`, async () => {
    const at = `//tmp/by-${version}-${run}`;
    await api.create({type: 'map_node', path: at});
    await api.set({path: `${at}/привет`}, {list: [1, 'two', null, true]});
    assert.deepEqual(await get(`${at}/привет`), {list: [1, 'two', null, true]});
    await api.copy({source_path: `${at}/привет`, destination_path: `${at}/copy`});
    await api.link({target_path: `${at}/copy`, link_path: `${at}/link`});
    assert.equal(await get(`${at}/link/list/1`), 'two');
    const transaction_id = await value(api.startTransaction({timeout: 60_000}), 'transaction_id');
    await api.pingTransaction({transaction_id});
    await api.lock({path: at, mode: 'exclusive', transaction_id});
    const other = await value(api.startTransaction({timeout: 60_000}), 'transaction_id');
    const theirs = () => api.lock({path: at, mode: 'exclusive', transaction_id: other});
    await refused(theirs(), 402, new RegExp(transaction_id));
    await api.commitTransaction({transaction_id});
    await theirs();
    await api.abortTransaction({transaction_id: other});
    await api.remove({path: at, recursive: true});
  });

  if (api.addMaintenance) {
    test(`${version}: a node is taken out and brought back`, async () => {
      const {nodes} = await call('list_nodes', {limit: 1});
      const node = {component: 'cluster_node', address: nodes[0].address};
      const id = await value(api.addMaintenance({...node, type: 'disable_scheduler_jobs', comment: 'a disk is changed'}), 'id');
      const state = () => get(`//sys/cluster_nodes/${node.address}/@disable_scheduler_jobs`);
      assert.equal(await state(), true);
      assert.match(JSON.stringify(await get(`//sys/cluster_nodes/${node.address}/@maintenance_requests`)), /a disk is changed/);
      await api.removeMaintenance({...node, id});
      assert.equal(await state(), false);
    });
  }

  test(`${version}: what weir has no tables for is refused with a code`, async () => {
    await refused(api.readTable({path: '//tmp/table'}), 1, /read_table/);
  });
}
