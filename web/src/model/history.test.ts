import {describe, expect, it} from 'vitest';

import type {History} from '../api/types';
import {frameOf, withGaps} from './history';

const stamp = (second: number) => new Date(second * 1000).toISOString();

const history = (...series: [string, [number, number][]][]): History => ({
  step: 1000, from_time: stamp(0), to_time: stamp(100),
  series: series.map(([name, points]) => ({name, resource: 'cpu', points: points.map(([at, value]) => [stamp(at), value, value])})),
});

describe('the time axis of charts', () => {
  it('has no gap where points come at their usual distance, or one is late', () => {
    expect(withGaps([0, 2, 4, 8, 10], 1)).toEqual([0, 2, 4, 8, 10]);
  });

  it('has a moment without values where nothing was recorded', () => {
    const frame = frameOf(history(['usage', [[0, 1], [1, 2], [2, 3], [60, 4], [61, 5]]]));
    expect(frame.times).toEqual([0, 1, 2, 3, 60, 61]);
    expect(frame.line('usage', 'cpu')).toEqual([1, 2, 3, null, 4, 5]);
  });

  it('aligns series, and has null where one of them has no point', () => {
    const frame = frameOf(history(['usage', [[0, 1], [1, 2]]], ['limit', [[1, 9]]]));
    expect(frame.line('limit', 'cpu')).toEqual([null, 9]);
    expect(frame.line('demand', 'cpu')).toBeUndefined();
  });

  it('copes with one point and with none', () => {
    expect(frameOf(history(['usage', [[5, 1]]])).times).toEqual([5]);
    expect(frameOf(history()).times).toEqual([]);
  });
});
