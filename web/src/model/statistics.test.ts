import {describe, expect, it} from 'vitest';

import {statisticRows, statisticsOf, unitOf, wholeOf} from './statistics';

const leaf = (count: number, sum: number, min: number, max: number) => ({count, sum, min, max});

describe('statistics of an operation', () => {
  const list = statisticsOf({
    user_job: {max_memory: {$$: {failed: {vanilla: leaf(1, 5, 5, 5)}, completed: {vanilla: leaf(2, 30, 10, 20), partition: leaf(1, 1, 1, 1)}}}},
    time: {exec: {$: {completed: {vanilla: leaf(3, 9, 1, 5)}}}},
  });
  it('has one row for each path and state', () =>
    expect(list.map((s) => `${s.path} ${s.state} ${s.summary.sum}`)).toEqual([
      'time/exec completed 9', 'user_job/max_memory completed 31', 'user_job/max_memory failed 5',
    ]));
  it('sums up over states', () => expect(wholeOf(list, 'user_job/max_memory')).toEqual(leaf(4, 36, 1, 20)));
});

describe('statistics of a job', () => {
  it('has one row for each path', () =>
    expect(statisticsOf({time: {exec: {...leaf(1, 7, 7, 7), last: 7}}})).toMatchObject([{path: 'time/exec', state: '', summary: {sum: 7}}]));
  it('takes what is no tree for an empty one', () => expect(statisticsOf(null)).toEqual([]));
});

describe('units', () => {
  it.each([
    ['user_job/max_memory', 'bytes'], ['user_job/memory_reserve', 'bytes'], ['time/exec', 'milliseconds'], ['user_job/cpu/user', 'milliseconds'],
    ['job_proxy/smoothed_cpu_usage_x100', 'hundredths'], ['user_job/cumulative_memory_reserve', 'number'], ['x/memory_reserve_factor_x10000', 'number'],
  ])('%s is in %s', (path, unit) => expect(unitOf(path)).toBe(unit));
});

describe('the tree of statistics', () => {
  const list = statisticsOf({user_job: {cpu: {user: leaf(1, 2, 2, 2), system: leaf(1, 3, 3, 3)}, max_memory: leaf(1, 5, 5, 5)}, time: {exec: leaf(1, 7, 7, 7)}});
  const written = (folded: string[]) => statisticRows(list, (path) => folded.includes(path)).map((row) => `${'.'.repeat(row.depth)}${row.name}${row.open === false ? ' +' : ''}`);
  it('has branches before their leaves', () =>
    expect(written([])).toEqual(['time', '.exec', 'user_job', '.cpu', '..system', '..user', '.max_memory']));
  it('hides what is in folded branches', () => expect(written(['user_job', 'time'])).toEqual(['time +', 'user_job +']));
  it('hides branches of folded branches', () => expect(written(['user_job/cpu'])).toEqual(['time', '.exec', 'user_job', '.cpu +', '.max_memory']));
});
