import {describe, expect, it} from 'vitest';

import {stepsOf} from './waterfall';

const row = (code: string, amount: number) => ({code, amount, waiting_job_count: 1, operation_count: 1});

describe('a waterfall', () => {
  it('has rows that begin where the last one ends, and sum to the whole', () => {
    const steps = stepsOf([row('limit', 6), row('node_resources', 3), row('starts_now', 1)], 10);
    expect(steps.map((step) => [step.from, step.to])).toEqual([[0, 0.6], [0.6, 0.9], [0.9, 1]]);
  });

  it('of nothing has no length', () => {
    expect(stepsOf([row('limit', 0)], 0)[0]).toMatchObject({from: 0, to: 0});
  });
});
