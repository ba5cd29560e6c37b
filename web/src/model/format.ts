import type {Amounts, Resource} from '../api/types';

export type Locale = 'en' | 'ru';

const dash = '–';

/** decimal prints a number with at most three digits after the point and no needless zeros. */
export function decimal(value: number, locale: Locale = 'en', digits = value >= 100 ? 1 : value >= 10 ? 2 : 3): string {
  if (!Number.isFinite(value)) return dash;
  return value.toLocaleString(locale === 'ru' ? 'ru-RU' : 'en-US', {maximumFractionDigits: digits});
}

const binary = {
  en: ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'],
  ru: ['Б', 'КиБ', 'МиБ', 'ГиБ', 'ТиБ', 'ПиБ'],
};

/** bytes prints a size in binary units. */
export function bytes(value: number, locale: Locale = 'en'): string {
  if (!Number.isFinite(value)) return dash;
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= 1024 && unit < binary.en.length - 1) {
    rest /= 1024;
    unit++;
  }
  return `${decimal(Math.sign(value) * rest, locale, rest >= 100 ? 0 : rest >= 10 ? 1 : 2)} ${binary[locale][unit]}`;
}

/** amount prints an amount of a resource; undefined is a dash. */
export function amount(resource: Resource, value: number | null | undefined, locale: Locale = 'en'): string {
  if (value === null || value === undefined) return dash;
  if (resource === 'memory') return bytes(value, locale);
  return decimal(value, locale);
}

/** share prints a fraction of the cluster as a percentage. */
export function share(value: number | null | undefined, locale: Locale = 'en'): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return dash;
  const percent = value * 100;
  if (percent !== 0 && Math.abs(percent) < 0.01) return percent > 0 ? `<${decimal(0.01, locale)}%` : dash;
  return `${decimal(percent, locale, Math.abs(percent) >= 10 ? 1 : 2)}%`;
}

const spans: Record<Locale, [number, string][]> = {
  en: [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']],
  ru: [[86400, 'д'], [3600, 'ч'], [60, 'мин'], [1, 'с']],
};

/** duration prints a time span in its two largest units. */
export function duration(milliseconds: number | null | undefined, locale: Locale = 'en'): string {
  if (milliseconds === null || milliseconds === undefined || !Number.isFinite(milliseconds)) return dash;
  if (milliseconds < 0) milliseconds = 0;
  const seconds = milliseconds / 1000;
  const units = spans[locale];
  if (seconds === 0) return `0 ${units[3]![1]}`;
  if (seconds < 1) return `${Math.round(milliseconds)} ${locale === 'ru' ? 'мс' : 'ms'}`;
  if (seconds < 60) return `${decimal(seconds, locale, seconds < 10 ? 1 : 0)} ${units[3]![1]}`;
  let rest = Math.round(seconds);
  const parts: string[] = [];
  for (const [size, name] of units) {
    const count = Math.floor(rest / size);
    if (parts.length > 0 || count > 0) {
      rest -= count * size;
      if (count > 0) parts.push(`${count} ${name}`);
      if (parts.length === 0) continue;
      if (parts.length === 2 || (parts.length === 1 && count === 0)) break;
    }
  }
  return parts.join(' ');
}

/** moment prints an instant in the reader's time zone. */
export function moment(instant: string | null | undefined, locale: Locale = 'en', now = new Date()): string {
  if (!instant) return dash;
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return dash;
  const tag = locale === 'ru' ? 'ru-RU' : 'en-GB';
  const time = at.toLocaleTimeString(tag, {hour: '2-digit', minute: '2-digit', second: '2-digit'});
  if (at.toDateString() === now.toDateString()) return time;
  return `${at.toLocaleDateString(tag, {day: '2-digit', month: 'short', year: at.getFullYear() === now.getFullYear() ? undefined : 'numeric'})} ${time}`;
}

/** longMoment prints an instant with its date and time zone. */
export function longMoment(instant: string, locale: Locale = 'en', timeZone?: string): string {
  return new Date(instant).toLocaleString(locale === 'ru' ? 'ru-RU' : 'en-GB', {dateStyle: 'full', timeStyle: 'long', timeZone});
}

/** tick prints a mark of a time axis, with as much as is needed to tell the marks apart. Times are in seconds. */
export function tick(at: number, all: number[], locale: Locale = 'en'): string {
  const [span, step] = [(all.at(-1) ?? at) - (all[0] ?? at), (all[1] ?? at) - (all[0] ?? at)];
  const day: Intl.DateTimeFormatOptions = span >= 72_000 ? {day: '2-digit', month: 'short'} : {};
  const clock: Intl.DateTimeFormatOptions = step >= 86_400 ? {} : {hour: '2-digit', minute: '2-digit', ...(step < 60 ? {second: '2-digit'} : {})};
  return new Date(at * 1000).toLocaleString(locale === 'ru' ? 'ru-RU' : 'en-GB', {...day, ...clock});
}

/** volume prints a volume of a resource: units times hours. */
export function volume(resource: Resource, value: number | null | undefined, locale: Locale = 'en'): string {
  if (value === null || value === undefined) return dash;
  const perHour = value / 3600;
  return `${amount(resource, perHour, locale)}${resource === 'memory' ? '' : ` ${unitOf(resource, locale)}`}·${locale === 'ru' ? 'ч' : 'h'}`;
}

function unitOf(resource: Resource, locale: Locale): string {
  if (resource === 'user_slots') return locale === 'ru' ? 'слот' : 'slot';
  return resource === 'cpu' || resource === 'gpu' ? resource.toUpperCase() : resource;
}

/** volumeUnit is the unit of plainVolume, such as CPU·h; memory is in GiB·h. */
export function volumeUnit(resource: Resource, locale: Locale = 'en'): string {
  return `${resource === 'memory' ? binary[locale][3] : unitOf(resource, locale)}·${locale === 'ru' ? 'ч' : 'h'}`;
}

/** plainVolume prints a volume without its unit. */
export function plainVolume(resource: Resource, value: number, locale: Locale = 'en'): string {
  return decimal(value / 3600 / (resource === 'memory' ? 2 ** 30 : 1), locale);
}

/** ratio divides. Divided by zero, zero is 0 and anything else is infinite. */
export function ratio(part: number, whole: number): number {
  if (whole > 0) return part / whole;
  return part > 0 ? Infinity : 0;
}

/** ofResource reads one resource of a vector. */
export function ofResource(amounts: Amounts | null | undefined, resource: Resource): number | undefined {
  return amounts?.[resource];
}

/** shortId returns the first part of an id, which is enough for people. */
export function shortId(id: string): string {
  return id.split('-').slice(0, 2).join('-');
}

/** csv writes a table; it escapes texts that a spreadsheet would evaluate. */
export function csv(header: string[], rows: (string | number | null | undefined)[][]): string {
  const cell = (value: string | number | null | undefined) => {
    if (value === null || value === undefined) return '';
    let text = String(value);
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [header, ...rows].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/** shellQuote quotes a text as one word of a shell command. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
