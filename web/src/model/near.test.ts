import {describe, expect, it} from 'vitest';

import {distance, nearest} from './near';

describe('names that are nearly right', () => {
  it.each([['', '', 0], ['abc', 'abc', 0], ['abc', 'acb', 1], ['abc', 'ab', 1], ['abc', 'xbc', 1], ['', 'abc', 3], ['resaerch', 'research', 1]])(
    '%j is %j after %d steps', (a, b, steps) => expect(distance(a, b)).toBe(steps));

  const pools = ['research', 'production', 'batch', 'research-gpu', 'adhoc'];
  it('finds the one that was meant', () => expect(nearest('resaerch', pools)).toEqual(['research']));
  it('finds what contains it, after what is nearer', () => expect(nearest('Research', pools)).toEqual(['research', 'research-gpu']));
  it('finds nothing where nothing is near', () => expect(nearest('xyz', pools)).toEqual([]));
});
