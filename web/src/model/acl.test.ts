import {describe, expect, it} from 'vitest';

import {type Entry, inheritedOf, namesOf} from './acl';

const entry = (subject: string): Entry => ({action: 'allow', subjects: [subject], permissions: ['use'], inheritance_mode: 'object_and_descendants'});

describe('access lists', () => {
  it('tells inherited entries from own ones, even if they are equal', () => {
    expect(inheritedOf([entry('a'), entry('b'), entry('a')], [entry('a')])).toEqual([entry('b'), entry('a')]);
    expect(inheritedOf([entry('a')], [{...entry('a'), inheritance_mode: undefined}])).toEqual([]);
  });
  it('reads names', () => expect(namesOf(' ann, bob  ann,')).toEqual(['ann', 'bob']));
});
