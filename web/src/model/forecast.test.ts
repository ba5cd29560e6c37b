import {describe, expect, it} from 'vitest';

import {held, next} from './forecast';

const times = {earliest: null, median: '2026-01-01T12:00:00Z', latest: null, made: '2026-01-01T11:00:00Z', method: 'ensemble', calibrated: true, held: 9, settled: 10};

describe('a forecast', () => {
  it('is about the start of an operation that waits', () => {
    expect(next({start: times, finish: times})).toEqual({starts: true, times});
  });
  it('is about the finish of one that runs', () => {
    expect(next({start: null, finish: times})).toEqual({starts: false, times});
  });
  it('may not be there', () => {
    expect(next(undefined)).toBeUndefined();
  });
  it('states how many held, if it is calibrated', () => {
    expect(held(times)).toBe(90);
    expect(held({...times, calibrated: false})).toBeUndefined();
    expect(held({...times, settled: 0})).toBeUndefined();
  });
});
