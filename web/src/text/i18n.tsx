import {createContext, useContext} from 'react';

import type {Locale} from '../model/format';
import {russian, russianWords} from './ru';

/** Key is an English text; the dictionary has a Russian one for each. */
export type Key = keyof typeof russian;

export type Values = Record<string, string | number>;

const categories: Record<Locale, readonly Intl.LDMLPluralRule[]> = {en: ['one', 'other'], ru: ['one', 'few', 'many']};

/** pluralForm selects the plural form of a locale (English: one, other; Russian: one, few, many) for a
 * count. In Russian, a fraction uses the second form. */
export function pluralForm(locale: Locale, count: string | number, forms: string[]): string {
  const value = typeof count === 'number' ? count : Number(count.replace(/[\s\u00a0\u202f]|,(?=\d{3})/g, '').replace(',', '.'));
  const category = new Intl.PluralRules(locale).select(value);
  const at = categories[locale].indexOf(category);
  return forms[at >= 0 ? at : 1] ?? forms[forms.length - 1] ?? '';
}

/** fill inserts values into a text: {n} is the value of n, {n|job|jobs} the form that agrees with it. */
function fill(locale: Locale, text: string, values?: Values): string {
  if (!values) return text;
  return text.replace(/\{(\w+)((?:\|[^|{}]+)*)\}/g, (whole, name: string, forms: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return forms ? pluralForm(locale, value, forms.slice(1).split('|')) : String(value);
  });
}

export interface Texts {
  locale: Locale;
  /** t returns a text of the page. */
  t: (key: Key, values?: Values) => string;
  /** word returns a readable form of a name that the server uses, such as a state. */
  word: (name: string | null | undefined) => string;
}

export function textsIn(locale: Locale): Texts {
  return {
    locale,
    t: (key, values) => fill(locale, locale === 'ru' ? russian[key] : key, values),
    word: (name) => {
      if (!name) return '–';
      const plain = name.replaceAll('_', ' ');
      return locale === 'ru' ? (russianWords[name] ?? plain) : plain;
    },
  };
}

export const TextsContext = createContext<Texts>(textsIn('en'));

export function useTexts(): Texts {
  return useContext(TextsContext);
}
