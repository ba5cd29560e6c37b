import {describe, expect, it} from 'vitest';

import type {Job} from '../api/types';
import {histogram, savingsOf, topOf, usesOf} from './memory';

const leaf = (value: number) => ({count: 1, sum: value, min: value, max: value, last: value});
const job = (state: string, used: number, reserve = 500): Job => ({
  id: 'x', state, address: 'n', start_time: '', task_name: 't',
  statistics: {user_job: {max_memory: leaf(used), memory_limit: leaf(1000), memory_reserve: leaf(reserve)}},
});

describe('memory of jobs', () => {
  it('is taken from jobs that ran to their end', () =>
    expect(usesOf([job('completed', 300), job('aborted', 900), job('running', 5), {...job('completed', 1), statistics: {}}])).toEqual([
      {task: 't', limit: 1000, reserve: 500, used: 300},
    ]));
  it('is counted in bars; what is above the limit is in the last one', () => {
    const bars = histogram([0, 0.04, 0.05, 0.3, 1, 1.2, Number.NaN, -1]);
    expect(bars).toHaveLength(20);
    expect(bars[0]).toEqual({from: 0, to: 0.05, count: 2});
    expect(bars[1]!.count).toBe(1);
    expect(bars[6]!.count).toBe(1);
    expect(bars[19]!.count).toBe(2);
  });
  it('is drawn up to where there is something', () => {
    expect([topOf([0.01, 0.05]), topOf([0.2]), topOf([0.4]), topOf([0.9, 2]), topOf([])]).toEqual([0.1, 0.25, 0.5, 1, 0.1]);
    expect(histogram([0.015, 0.049, 0.5], 0.1, 10).map((bar) => bar.count)).toEqual([0, 1, 0, 0, 1, 0, 0, 0, 0, 1]);
  });
  it('is compared with what was kept', () => {
    expect(savingsOf([])).toBeUndefined();
    expect(savingsOf(usesOf([job('completed', 300), job('completed', 700)]))).toEqual({jobs: 2, limit: 1000, reserve: 500, used: 500, above: 1});
  });
});
