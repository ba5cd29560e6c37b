import {describe, expect, it} from 'vitest';

import type {SimulatedOperation, SimulatedPool, SimulationReport} from '../api/types';
import {averageOf, elapsed, keptOf, primaryOf, timesOf, troublesOf, usedResources, waitOf} from './report';

const operation = (more: Partial<SimulatedOperation>) => ({name: 'op', state: 'completed', arrived: 10, started: 12, finished: 50, mean_wait: 1, ...more}) as SimulatedOperation;
const report = (more: object = {}) =>
  ({
    seconds: 100, series: {step: 5}, operations: [], pools: [],
    cluster: {capacity: {cpu: 8, gpu: 2}, utilisation: {cpu: 0.5, gpu: 0.1}, used: {cpu: 400, memory: 5, user_slots: 3}}, ...more,
  }) as unknown as SimulationReport;

describe('the report of a simulation', () => {
  it('is about the resource that was used most', () => {
    expect(primaryOf(report())).toBe('cpu');
    expect(primaryOf(report({cluster: {capacity: {gpu: 2}, utilisation: {cpu: 0.1, gpu: 0.9}, used: {}}}))).toBe('gpu');
    expect(usedResources(report())).toEqual(['cpu', 'memory']);
  });
  it('has averages of integrals', () => expect(averageOf(report(), {cpu: 400}, 'cpu')).toBe(4));
  it('knows how well guarantees were kept', () => {
    const pool = (demanding: number, below: number) => ({guarantee: {demanding_seconds: demanding, below_seconds: below}}) as SimulatedPool;
    expect(keptOf(pool(100, 25))).toBe(0.75);
    expect(keptOf(pool(0, 0))).toBeUndefined();
  });
  it('knows how long operations waited', () => {
    expect(waitOf(report(), operation({}))).toBe(2);
    expect(waitOf(report(), operation({mean_wait: 9}))).toBe(9);
    expect(waitOf(report(), operation({started: -1, finished: -1}))).toBe(90);
    expect(waitOf(report(), operation({started: -1, finished: 11}))).toBe(0);
  });
  it('tells of troubles', () =>
    expect(troublesOf(report({operations: [operation({}), operation({name: 'x', state: 'rejected', reason: 'no pool'})]}))).toEqual(['rejected x: no pool']));
  it('has moments', () => {
    expect(timesOf(report(), 3)).toEqual([0, 5, 10]);
    expect([0, 3600, 90_061, 65].map(elapsed)).toEqual(['00:00', '01:00', '1d 01:01:01', '00:01:05']);
  });
});
