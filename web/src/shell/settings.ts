import {Signal} from '../api/client';
import type {Locale} from '../model/format';

export type ThemeChoice = 'light' | 'dark' | 'system';

// The browser stores the reader's choices. If it refuses to, they are forgotten.
function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Only the choice is lost.
  }
}

/** stored is a signal that the browser remembers as JSON; a text that does not fit is ignored. */
function stored<T>(key: string, fallback: T, fits: (value: unknown) => value is T): Signal<T> {
  let start = fallback;
  try {
    const value: unknown = JSON.parse(read(key) ?? 'null');
    if (fits(value)) start = value;
  } catch {
    // It was not written by this page.
  }
  const signal = new Signal(start);
  signal.subscribe(() => write(key, JSON.stringify(signal.get())));
  return signal;
}

const areNames = (value: unknown): value is string[] => Array.isArray(value) && value.every((one) => typeof one === 'string');

/** favourites are the paths "tree/pool" of the pools that the reader marked. */
export const favourites = stored<string[]>('weir.favourites', [], areNames);

/** hiddenColumns are the names "mode/column" of the columns of the table of pools that the reader hid. */
export const hiddenColumns = stored<string[]>('weir.hidden-columns', [], areNames);

/** toggled returns a list with a name added, or removed if it is there. */
export function toggled(list: string[], name: string): string[] {
  return list.includes(name) ? list.filter((one) => one !== name) : [...list, name];
}

const storedTheme = read('weir.theme');
export const theme = new Signal<ThemeChoice>(storedTheme === 'light' || storedTheme === 'dark' ? storedTheme : 'system');
theme.subscribe(() => write('weir.theme', theme.get()));

const storedLocale = read('weir.language');
export const locale = new Signal<Locale>(
  storedLocale === 'ru' || storedLocale === 'en' ? storedLocale : navigator.language.startsWith('ru') ? 'ru' : 'en',
);
locale.subscribe(() => {
  write('weir.language', locale.get());
  document.documentElement.lang = locale.get();
});
document.documentElement.lang = locale.get();
