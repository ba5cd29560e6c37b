import {expect, test} from 'vitest';

import {isDay, isMonth, monthAfter, periodOf} from './period';

const now = Date.parse('2026-03-01T00:30:00Z');

test('periods are whole days and months of UTC, with the flags that select them', () => {
  expect(periodOf('today', now)).toEqual({from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z', flags: '--day 2026-03-01'});
  expect(periodOf('yesterday', now).flags).toBe('--day 2026-02-28');
  expect(periodOf('7d', now)).toEqual({from: '2026-02-23T00:00:00Z', to: '2026-03-02T00:00:00Z', flags: '--from 2026-02-23 --to 2026-03-02'});
  expect(periodOf('month', now).flags).toBe('--month 2026-03');
  expect(periodOf('last-month', now)).toEqual({from: '2026-02-01T00:00:00Z', to: '2026-03-01T00:00:00Z', flags: '--month 2026-02'});
});

test('chosen days include the last one; wrong ones count as today', () => {
  expect(periodOf('days', now, '2026-02-01', '2026-02-03').flags).toBe('--from 2026-02-01 --to 2026-02-04');
  expect(periodOf('days', now, '2026-02-03', '2026-02-01').flags).toBe('--day 2026-02-03');
  expect(periodOf('days', now, '2026-02-31', 'soon').flags).toBe('--day 2026-03-01');
  expect(periodOf('a century', now)).toEqual(periodOf('today', now));
});

test('months and days that do not exist are found out', () => {
  expect([isMonth('2026-12'), isMonth('2026-13'), isMonth('26-1'), isDay('2024-02-29'), isDay('2026-02-29')]).toEqual([true, false, false, true, false]);
  expect([monthAfter('2026-12'), monthAfter('2026-01', -1)]).toEqual(['2027-01', '2025-12']);
});
