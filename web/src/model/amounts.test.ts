import {describe, expect, it} from 'vitest';

import {readAmount, readNumber, writeAmount} from './amounts';

const gib = 1024 ** 3;

describe('amounts', () => {
  it.each([
    ['64GiB', 64 * gib], ['64 GiB', 64 * gib], ['64gib', 64 * gib], ['1.5GiB', 1.5 * gib], ['1,5 ГиБ', 1.5 * gib], ['512MiB', gib / 2], ['2Ti', 2048 * gib],
    ['3G', 3e9], ['3GB', 3e9], ['10', 10], ['10b', 10], ['0', 0], ['', undefined], ['  ', undefined], ['-1', -1], ['64 GiBs', '64 GiBs'], ['much', 'much'],
  ])('memory %j is read as %j', (text, value) => expect(readAmount('memory', text)).toBe(value));

  it.each([['4', 4], ['0,5', 0.5], ['4GiB', '4GiB'], ['', undefined]])('CPU %j is read as %j', (text, value) => expect(readAmount('cpu', text)).toBe(value));

  it.each([
    [64 * gib, '64GiB'], [1.5 * gib, '1.5GiB'], [gib / 2, '512MiB'], [1000, '1000'], [1025, '1025'], [0, '0'], [undefined, ''], ['odd', 'odd'], [3e9, '3000000000'],
  ])('memory %j is written as %j', (value, text) => {
    expect(writeAmount('memory', value)).toBe(text);
    if (typeof value === 'number') expect(readAmount('memory', text)).toBe(value);
  });

  it('writes other resources as they are', () => expect(writeAmount('cpu', 2.5)).toBe('2.5'));
  it('reads a number with a comma', () => expect(readNumber('3,5')).toBe(3.5));
});
