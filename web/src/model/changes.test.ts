import {describe, expect, it} from 'vitest';

import type {AuditRecord} from '../api/types';
import {changeOf, changesOf, changesOfPool} from './changes';

const tree = '//sys/pool_trees/default';
const record = (object: string, after: unknown, before: unknown = null): AuditRecord => ({
  id: 1, timestamp: '2026-11-16T07:00:00Z', user: 'root', command: 'apply_pools', object, before, after,
});

describe('a line of an audit record', () => {
  it.each([
    ['~ pool research: weight: unset → 3', {sign: '~', pool: 'research', what: 'pool research: weight', before: 'unset', after: '3'}],
    ['~ pool a: limits: {cpu: 2} → {cpu: 4}', {sign: '~', pool: 'a', what: 'pool a: limits', before: '{cpu: 2}', after: '{cpu: 4}'}],
    ['+ pool a (in <Root>): weight: 4', {sign: '+', pool: 'a', what: 'pool a (in <Root>): weight: 4'}],
    ['- pool a (in b)', {sign: '-', pool: 'a', what: 'pool a (in b)'}],
    ['> pool a: b → c', {sign: '>', pool: 'a', what: 'pool a', before: 'b', after: 'c'}],
    ['# pools in a: order changed', {sign: '#', pool: 'a', what: 'pools in a: order changed'}],
    ['~ tree: default_parent_pool: a → b', {sign: '~', pool: undefined, what: 'tree: default_parent_pool', before: 'a', after: 'b'}],
    ['something else', {sign: '', what: 'something else'}],
  ])('%s', (text, change) => expect(changeOf(text)).toEqual(change));
});

describe('changes of a pool', () => {
  const applied = record(tree, '+ pool new (in a): weight: 2\n~ pool a: weight: 1 → 2\n~ pool ab: weight: 1 → 3\n');

  it('has what apply did to it, and counts the rest', () => {
    const [found] = changesOfPool([applied], `${tree}/a`, 'a');
    expect(found?.own.map((change) => change.what)).toEqual(['pool a: weight']);
    expect(found?.others).toHaveLength(2);
  });

  it('has nothing where only others changed', () => expect(changesOfPool([applied], `${tree}/b`, 'b')).toEqual([]));

  it('has a value of its own, such as its access list', () => {
    const own = record(`${tree}/a`, [{action: 'allow'}], []);
    expect(changesOfPool([own], `${tree}/a`, 'a')[0]?.own).toEqual([
      {sign: '~', what: `${tree}/a`, before: '[]', after: '[{"action":"allow"}]'},
    ]);
  });

  it('says at least the command', () => expect(changesOf(record(`${tree}/a`, null))).toEqual([{sign: '', what: `apply_pools ${tree}/a`}]));
});
