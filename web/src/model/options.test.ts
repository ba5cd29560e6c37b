import {describe, expect, it} from 'vitest';

import {at, difference, optionsOf, poolIn, withNewPool, withoutPool, withPool, withValue} from './options';

const tree = {default_parent_pool: 'adhoc', pools: {a: {weight: 2, pools: {b: {mode: 'fifo'}}}, adhoc: {}}};

describe('documents of pools', () => {
  it('finds a pool by its way', () => expect(poolIn(tree, ['a', 'b'])).toEqual({mode: 'fifo'}));
  it('leaves out the pools inside', () => expect(optionsOf(poolIn(tree, ['a']))).toEqual({weight: 2}));
  it('changes one pool and nothing else', () =>
    expect(withPool(tree, ['a'], {weight: 5})).toEqual({
      default_parent_pool: 'adhoc', pools: {a: {weight: 5, pools: {b: {mode: 'fifo'}}}, adhoc: {}},
    }));
  it('sets, and takes away what is empty', () => {
    expect(withValue({}, ['limits', 'cpu'], 3)).toEqual({limits: {cpu: 3}});
    expect(withValue({limits: {cpu: 3}, x: 1}, ['limits', 'cpu'], undefined)).toEqual({x: 1});
    expect(at({limits: {cpu: 3}}, ['limits', 'cpu'])).toBe(3);
  });
  it('tells what to set and what to remove', () =>
    expect(difference({a: 1, b: {c: 1}, d: 1}, {a: 1, b: {c: 2}, e: 3})).toEqual({set: {b: {c: 2}, e: 3}, removed: ['d']}));
});

describe('pools that come and go', () => {
  const tree = {pools: {a: {weight: 1, pools: {b: {weight: 2}}}, c: {}}};
  it('takes a pool away with all in it', () => {
    expect(withoutPool(tree, ['a', 'b'])).toEqual({pools: {a: {weight: 1, pools: {}}, c: {}}});
    expect(withoutPool(tree, ['a'])).toEqual({pools: {c: {}}});
    expect(withoutPool(tree, ['x', 'y'])).toEqual(tree);
  });
  it('puts a pool into another', () => {
    expect(withNewPool(tree, ['a', 'b'], 'd', {weight: 4})).toEqual({pools: {a: {weight: 1, pools: {b: {weight: 2, pools: {d: {weight: 4}}}}}, c: {}}});
    expect(withNewPool({}, [], 'd', {})).toEqual({pools: {d: {}}});
  });
});
