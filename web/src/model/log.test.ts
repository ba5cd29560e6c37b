import {describe, expect, it} from 'vitest';

import {keepEnd, readAbout} from './log';

describe('the log of a job', () => {
  it('has facts about each part in a header', () => {
    expect(readAbout('{"total_size"=13;"end_offset"=7;"ended"=%false;}')).toEqual({total_size: 13, end_offset: 7, ended: false});
    expect(readAbout('{"ended"=%true}')).toEqual({ended: true});
    expect(readAbout(null)).toEqual({});
  });

  it('loses whole lines at its start if it is too long', () => {
    expect(keepEnd('one\ntwo\nthree', 100)).toBe('one\ntwo\nthree');
    expect(keepEnd('one\ntwo\nthree', 8)).toBe('three');
    expect(keepEnd('without lines', 5)).toBe('lines');
  });
});
