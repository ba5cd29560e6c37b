import {describe, expect, it} from 'vitest';

import type {Job} from '../api/types';
import {CpuRecord, historyOf, sumOf, trackOf} from './cpu';

const job = (id: string, asked: number, limit: number, usage: number, state = 'running'): Job => ({
  id, state, address: 'n', start_time: '', task_name: 't', resources: {cpu: asked}, resource_usage: {cpu: limit}, brief_statistics: {smoothed_cpu: usage},
});

describe('CPU of jobs over time', () => {
  const record = new CpuRecord();
  record.add([job('a', 4, 4, 3), job('b', 1, 1, 0.5), job('c', 1, 1, 1, 'completed')], 10);
  record.add([job('b', 1, 0.6, 0.4)], 12);
  it('keeps limit and usage of each job', () =>
    expect(record.tracks.get('b')!.samples).toEqual([{at: 10, limit: 1, usage: 0.5}, {at: 12, limit: 0.6, usage: 0.4}]));
  it('knows which jobs still run, and lists them first', () => expect(record.list().map((t) => `${t.job} ${t.running}`)).toEqual(['b true', 'a false']));
  it('keeps no jobs that never ran', () => expect(record.tracks.has('c')).toBe(false));
  it('adds them up', () => expect(sumOf(record.list())).toEqual([{at: 10, limit: 5, usage: 3.5}, {at: 12, limit: 0.6, usage: 0.4}]));
  it('begins with what the server kept', () => {
    const old = {...job('h', 2, 1, 0.5), start_time: '1970-01-01T00:01:40Z', cpu_history: {step: 2000, limit: [null, 2, 1.5], usage: [null, 1, 0.75]}};
    expect(historyOf(old)).toEqual([{at: 102, limit: 2, usage: 1}, {at: 104, limit: 1.5, usage: 0.75}]);
    const seen = new CpuRecord();
    seen.add([old], 104);
    expect(seen.tracks.get('h')!.samples).toEqual([{at: 102, limit: 2, usage: 1}, {at: 104, limit: 1, usage: 0.5}]);
    const track = (samples: [number, number][], running: boolean) => ({...trackOf(old), running, samples: samples.map(([at, limit]) => ({at, limit, usage: 0}))});
    expect(sumOf([track([[1, 10], [3, 20]], false), track([[2, 1]], true)]).map((sum) => [sum.at, sum.limit])).toEqual([[1, 10], [2, 11], [3, 21]]);
    expect(sumOf([track([[1, 10]], false), track([[2, 1]], true)]).map((sum) => [sum.at, sum.limit])).toEqual([[1, 10], [2, 1]]);
  });
  it('forgets those that ended when there are many', () => {
    const many = new CpuRecord();
    for (let i = 0; i < 300; i++) many.add([job(`j${i}`, 1, 1, 1)], i);
    expect(many.tracks.size).toBe(200);
    expect(many.list()[0]!.job).toBe('j299');
  });
});
