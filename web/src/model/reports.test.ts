import {expect, test} from 'vitest';

import {chanceOf, forecastSums, measureOf, scaleOf, tableOf} from './reports';

test('measures follow from the names of columns', () => {
  expect(['held_cpu_core_s', 'held_memory_gib_s', 'lost_gpu_s', 'mean_wait_s', 'coverage', 'jobs'].map(measureOf)).toEqual(
    ['core_h', 'gib_h', 'gpu_h', 'seconds', 'part', 'count'],
  );
  expect([scaleOf('core_h'), scaleOf('seconds')]).toEqual([3600, 1]);
});

test('a table for CSV has the columns of the server, with the time first', () => {
  expect(tableOf('a', 'b', ['pool', 'jobs'], [{jobs: 3, pool: 'p', more: 1}, {pool: 'q', jobs: null}])).toEqual([
    ['from', 'to', 'pool', 'jobs'], [['a', 'b', 'p', 3], ['a', 'b', 'q', null]],
  ]);
});

test('forecasts are summed by target; means count as often as they have forecasts', () => {
  const [start, finish] = forecastSums([
    {target: 'start', settled: 10, held: 9, uncalibrated: 0, pinball_s: 1, compared: 4, compared_pinball_s: 1, compared_ensemble_s: 2, compared_history_s: 3},
    {target: 'start', settled: 20, held: 15, uncalibrated: 10, pinball_s: 5, compared: 0, compared_pinball_s: null, compared_ensemble_s: null, compared_history_s: null},
    {target: 'finish', settled: 0, held: 0, uncalibrated: 1, pinball_s: 7, compared: 0, compared_pinball_s: null, compared_ensemble_s: null, compared_history_s: null},
  ]);
  expect(start).toEqual({target: 'start', scored: 40, settled: 30, held: 24, uncalibrated: 10, shown: 4, compared: {count: 4, shown: 1, ensemble: 2, history: 3}});
  expect(finish?.compared).toBeUndefined();
  expect(forecastSums([])).toEqual([]);
});

test('the interval of chance contains the part and shrinks with the count', () => {
  const [low, high] = chanceOf(90, 100);
  expect(low).toBeCloseTo(0.8256, 3);
  expect(high).toBeCloseTo(0.9448, 3);
  expect(chanceOf(0, 0)).toEqual([0, 1]);
  const [nearer] = chanceOf(9000, 10_000);
  expect(nearer).toBeGreaterThan(0.893);
});
