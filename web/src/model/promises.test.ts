import {expect, test} from 'vitest';

import type {PoolGuarantees} from '../api/types';
import {calendarOf, guaranteesTable, partOf, percent, poolsOf, verdictOf} from './promises';

const line = (more: Partial<PoolGuarantees> = {}): PoolGuarantees => ({
  pool_tree: 'default', pool: 'p', resource: 'cpu', promised: 10, asked: 20, due: 10, got: 10, unclaimed: 0, short: 0, broken: 0, kept: 1, kept_time: 1, causes: [], ...more,
});
const idle = line({due: 0, asked: 0, kept: null, kept_time: null});

test('no demand is no verdict, never kept', () => {
  expect([verdictOf([]), verdictOf([idle]), partOf([idle]), percent(partOf([idle]))]).toEqual(['none', 'none', undefined, '–']);
});

test('the worst resource counts, and 99 % is enough', () => {
  expect(verdictOf([line(), idle])).toBe('kept');
  expect(verdictOf([line(), line({resource: 'gpu', kept: 0.5})])).toBe('broken');
  expect([verdictOf([line({kept: 0.99})]), verdictOf([line({kept: 0.9899})])]).toEqual(['kept', 'broken']);
});

test('a flow guarantee is judged by its day', () => {
  const flow = {flowed: 10, due: 10, got: 4, overflowed: 0, kept: false};
  expect([verdictOf([{...idle, flow}]), partOf([{...idle, flow}])]).toEqual(['broken', 0.4]);
  expect(verdictOf([{...idle, flow: {...flow, got: 10, kept: true}}])).toBe('kept');
  expect(verdictOf([{...idle, flow: {...flow, due: 0, got: 0, kept: null}}])).toBe('none');
});

test('percentages are rounded down', () => {
  expect([percent(0.99999), percent(1), percent(0.9343), percent(0.5, 'ru'), percent(null)]).toEqual(['99.99%', '100%', '93.43%', '50%', '–']);
});

test('a calendar has weeks from Monday, and days that have not begun', () => {
  const weeks = calendarOf('2026-11', [line({day: '2026-11-02'}), line({day: '2026-11-03', kept: 0.2})], '2026-11-16');
  expect(weeks.map((week) => week.length)).toEqual([7, 7, 7, 7, 7, 7]);
  expect(weeks[0]!.map((day) => day?.day)).toEqual([undefined, undefined, undefined, undefined, undefined, undefined, '2026-11-01']);
  expect(weeks[1]!.slice(0, 3).map((day) => day?.verdict)).toEqual(['kept', 'broken', 'none']);
  expect(weeks.flat().filter((day) => day?.future).length).toBe(14);
});

test('pools have their days in order', () => {
  const [first, second] = poolsOf([line(), line({resource: 'gpu'}), line({pool: 'q'})], [line({day: '2026-11-02', kept: 0})], '2026-11-01', '2026-11-02', '2026-11-16');
  expect(first!.lines.length).toBe(2);
  expect(first!.days.map((day) => day.verdict)).toEqual(['none', 'broken']);
  expect(second!.days.map((day) => day.verdict)).toEqual(['none', 'none']);
});

test('the table for CSV has a column for each cause', () => {
  const [header, rows] = guaranteesTable('a', 'b', [line({day: '2026-11-02', causes: [{cause: 'placing', amount: 3, own: false}]})]);
  expect(rows[0]!.length).toBe(header.length);
  expect([rows[0]![header.indexOf('placing')], rows[0]![header.indexOf('node_loss')], rows[0]![header.indexOf('day')]]).toEqual([3, 0, '2026-11-02']);
});
