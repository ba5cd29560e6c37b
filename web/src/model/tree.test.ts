import {describe, expect, it} from 'vitest';

import type {LiveOperation, Pool} from '../api/types';
import {boundOf, charge, forestOf, pathTo, type Row, rowsOf, topRows} from './tree';

const pool = (parent: string, weight = 1) => ({parent, weight}) as Pool;
const pools: Record<string, Pool> = {
  '<Root>': {} as Pool,
  b: pool('<Root>', 3),
  a: pool('<Root>', 1),
  'a.1': pool('a'),
  'a.2': pool('a'),
  'a.1.x': pool('a.1'),
};
const operations = {
  'op-2': {pool: 'a.1.x', title: 'nightly', fifo_index: 1} as LiveOperation,
  'op-1': {pool: 'a.1.x', title: 'hourly', fifo_index: 2} as LiveOperation,
};
const names = (rows: Row[]) => rows.map((row) => `${'>'.repeat(row.depth)}${row.name}`);
const open = () => true;

describe('the tree as rows', () => {
  it('lists parents before what is in them, siblings by name', () =>
    expect(names(rowsOf(forestOf(pools), {filter: '', isOpen: open}))).toEqual(['a', '>a.1', '>>a.1.x', '>a.2', 'b']));
  it('hides what is in closed pools', () =>
    expect(names(rowsOf(forestOf(pools), {filter: '', isOpen: (name) => name === 'a'}))).toEqual(['a', '>a.1', '>a.2', 'b']));
  it('orders operations of a FIFO pool by their index', () =>
    expect(names(rowsOf(forestOf(pools, operations), {filter: 'a.1.x', isOpen: open}))).toEqual([
      'a', '>a.1', '>>a.1.x', '>>>op-2', '>>>op-1',
    ]));
  it('keeps the way to a match and opens it', () =>
    expect(names(rowsOf(forestOf(pools, operations), {filter: 'NIGHT', isOpen: () => false}))).toEqual([
      'a', '>a.1', '>>a.1.x', '>>>op-2',
    ]));
  it('sums over pools that contain each other only once', () => {
    const shown = (filter: string) => names(topRows(rowsOf(forestOf(pools, operations), {filter, isOpen: open}), filter));
    expect(shown('')).toEqual(['a', 'b']);
    expect(shown('a.')).toEqual(['>a.1', '>a.2']);
    expect(shown('nightly')).toEqual([]);
  });
  it('orders siblings as asked', () =>
    expect(
      names(
        rowsOf(forestOf(pools), {
          filter: '', isOpen: () => false,
          compare: (x, y) => (x.kind === 'pool' && y.kind === 'pool' ? y.pool.weight - x.pool.weight : 0),
        }),
      ),
    ).toEqual(['b', 'a']));
  it('finds the way to a pool', () => expect(pathTo(pools, 'a.1.x')).toEqual(['a', 'a.1', 'a.1.x']));
  it('lays out ten thousand pools at once', () => {
    const many: Record<string, Pool> = {'<Root>': {} as Pool};
    for (let i = 0; i < 10_000; i++) many[`p${i}`] = pool(i < 100 ? '<Root>' : `p${i % 100}`);
    expect(rowsOf(forestOf(many), {filter: '', isOpen: open})).toHaveLength(10_000);
  });
});

describe('the charge of a bucket', () => {
  it('is a part of its capacity', () =>
    expect(charge({accumulated_resource_ratio_volume: 50, integral_pool_capacity_ratio: 200} as Pool)).toBe(0.25));
  it('is nothing without a bucket', () => expect(charge({} as Pool)).toBeUndefined());
});

describe('what bounds a share', () => {
  const pool = (fair: number, demand: number, limit: number) =>
    ({dominant_resource: 'cpu', fair_share: {cpu: fair}, demand_share: {cpu: demand}, limits_share: {cpu: limit}}) as unknown as Pool;
  it.each([[0.3, 0.3, 1, 'demand'], [0.3, 0.9, 0.3, 'limit'], [0.3, 0.9, 1, 'parent'], [0, 0, 0, 'demand']])('%d of %d up to %d: %s', (fair, demand, limit, bound) =>
    expect(boundOf(pool(fair, demand, limit))).toBe(bound));
});
