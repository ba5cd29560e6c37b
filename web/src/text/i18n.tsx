import {createContext, useContext} from 'react';

import type {Locale} from '../model/format';
import {russian, russianWords} from './ru';

/** Key is an English text; the dictionary has a Russian one for each. */
export type Key = keyof typeof russian;

export type Values = Record<string, string | number>;

function fill(text: string, values?: Values): string {
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

export interface Texts {
  locale: Locale;
  /** t is a text of the page. */
  t: (key: Key, values?: Values) => string;
  /** word is a name that the server uses, such as a state, for people. */
  word: (name: string | null | undefined) => string;
}

export function textsIn(locale: Locale): Texts {
  return {
    locale,
    t: (key, values) => fill(locale === 'ru' ? russian[key] : key, values),
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
