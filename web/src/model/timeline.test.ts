import {expect, it} from 'vitest';

import type {Job} from '../api/types';
import {layOut} from './timeline';

const job = (id: string, start: number, end?: number): Job => ({
  id, state: 'completed', address: 'n', task_name: 't', start_time: new Date(start).toISOString(), finish_time: end === undefined ? undefined : new Date(end).toISOString(),
});

it('puts jobs that do not meet into one lane', () => {
  const {from, until, lanes} = layOut([job('b', 50, 90), job('a', 0, 40), job('c', 20)], 100);
  expect([from, until]).toEqual([0, 100]);
  expect(lanes.map((lane) => lane.map((span) => `${span.job.id} ${span.start}-${span.end}`))).toEqual([['a 0-40', 'b 50-90'], ['c 20-100']]);
});
