import {describe, expect, it} from 'vitest';

import {pluralForm, textsIn} from './i18n';

describe('a text with a count', () => {
  it.each([
    [0, 'jobs'], [1, 'job'], [2, 'jobs'], [11, 'jobs'], [21, 'jobs'], ['1,001', 'jobs'],
  ])('agrees with %s in English', (n, form) => {
    expect(pluralForm('en', n, ['job', 'jobs'])).toBe(form);
  });

  it.each([
    [0, 'джобов'], [1, 'джоб'], [2, 'джоба'], [5, 'джобов'], [11, 'джобов'], [12, 'джобов'], [21, 'джоб'], [22, 'джоба'],
    ['1\u00a0001', 'джоб'], ['0,5', 'джоба'],
  ])('agrees with %s in Russian', (n, form) => {
    expect(pluralForm('ru', n, ['джоб', 'джоба', 'джобов'])).toBe(form);
  });

  it('has the value and the form', () => {
    expect(textsIn('en').t('on {n} {n|node|nodes}', {n: 1})).toBe('on 1 node');
    expect(textsIn('ru').t('on {n} {n|node|nodes}', {n: 1})).toBe('на 1 узле');
    expect(textsIn('ru').t('on {n} {n|node|nodes}', {n: 4})).toBe('на 4 узлах');
  });
});
