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
