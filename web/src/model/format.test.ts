import {describe, expect, it} from 'vitest';

import {amount, bytes, csv, decimal, duration, moment, ratio, share, shellQuote, volume} from './format';

describe('numbers', () => {
  it.each([
    [0, '0'], [3.2, '3.2'], [0.12345, '0.123'], [31.999, '32'], [1234.56, '1,234.6'], [Infinity, '–'], [NaN, '–'],
  ])('%f is printed as %s', (value, text) => expect(decimal(value)).toBe(text));
  it('has a comma in Russian', () => expect(decimal(3.25, 'ru')).toBe('3,25'));
});

describe('sizes', () => {
  it.each([
    [0, '0 B'], [1023, '1,023 B'], [1024, '1 KiB'], [1536, '1.5 KiB'], [17179869184, '16 GiB'], [8719173671, '8.12 GiB'], [-2048, '-2 KiB'],
  ])('%d bytes are %s', (value, text) => expect(bytes(value)).toBe(text));
  it('has Russian units', () => expect(bytes(1536, 'ru')).toBe('1,5 КиБ'));
});

describe('amounts', () => {
  it('prints memory as a size and the rest as numbers', () => {
    expect(amount('memory', 1024)).toBe('1 KiB');
    expect(amount('cpu', 1.5)).toBe('1.5');
  });
  it('prints a dash for what is not there', () => expect(amount('gpu', undefined)).toBe('–'));
  it('prints volumes in units times hours', () => {
    expect(volume('cpu', 7200)).toBe('2 CPU·h');
    expect(volume('memory', 3600 * 1024)).toBe('1 KiB·h');
  });
});

describe('shares', () => {
  it.each([[0, '0%'], [0.5, '50%'], [0.12345, '12.3%'], [0.012345, '1.23%'], [0.00001, '<0.01%'], [1.5, '150%'], [undefined, '–']])(
    '%s is %s', (value, text) => expect(share(value as number)).toBe(text));
  it('divides by nothing without NaN', () => {
    expect(ratio(0, 0)).toBe(0);
    expect(ratio(1, 0)).toBe(Infinity);
    expect(ratio(1, 2)).toBe(0.5);
  });
});

describe('durations', () => {
  it.each([
    [5, '5 ms'], [1500, '1.5 s'], [59_000, '59 s'], [60_000, '1 min'], [188_637, '3 min 9 s'], [3_600_000, '1 h'],
    [3_660_000, '1 h 1 min'], [90_000_000, '1 d 1 h'], [86_405_000, '1 d'], [-5, '0 s'], [null, '–'],
  ])('%s ms are %s', (value, text) => expect(duration(value as number)).toBe(text));
});

describe('moments', () => {
  const now = new Date('2026-11-15T12:00:00');
  it('prints only the time of today', () => expect(moment('2026-11-15T09:05:07', 'en', now)).toBe('09:05:07'));
  it('prints the day of other days', () => expect(moment('2026-11-14T09:05:07', 'en', now)).toBe('14 Nov 09:05:07'));
  it('prints a dash for no time', () => expect(moment(null)).toBe('–'));
});

describe('files and commands', () => {
  it('quotes cells and keeps formulas texts', () =>
    expect(csv(['a', 'b'], [['x,"y"', 1], ['=1+1', null]])).toBe('a,b\r\n"x,""y""",1\r\n\'=1+1,\r\n'));
  it('quotes words of a shell', () => {
    expect(shellQuote('//sys/pools/a/@weight')).toBe('//sys/pools/a/@weight');
    expect(shellQuote("it's")).toBe(`'it'\\''s'`);
  });
});
