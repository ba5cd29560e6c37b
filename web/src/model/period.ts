// Periods of reports. Days and months are of UTC, as the server keeps its books.

/** Period is a time from the start of a day on; flags select it on the command line. */
export interface Period {
  /** from and to are instants; to is the first one that does not belong. */
  from: string;
  to: string;
  flags: string;
}

export const periods = ['today', 'yesterday', '7d', '30d', 'month', 'last-month', 'days'] as const;
export type PeriodName = (typeof periods)[number];

const dayLength = 86_400_000;

/** dayOf returns the day of an instant, such as 2026-10-31. */
export function dayOf(instant: number | string): string {
  return new Date(instant).toISOString().slice(0, 10);
}

/** dayAfter returns the day that many days later. */
export function dayAfter(day: string, count = 1): string {
  return dayOf(Date.parse(`${day}T00:00:00Z`) + count * dayLength);
}

/** monthAfter returns the month that many months later; months are written as 2026-10. */
export function monthAfter(month: string, count = 1): string {
  const [year = 0, number = 1] = month.split('-').map(Number);
  return dayOf(Date.UTC(year, number - 1 + count, 1)).slice(0, 7);
}

/** isMonth and isDay report whether a text is a month or a day that exists. */
export function isMonth(text: string): boolean {
  return /^\d{4}-\d{2}$/.test(text) && isDay(`${text}-01`);
}

export function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && dayOf(Date.parse(text)) === text;
}

const midnight = (day: string) => `${day}T00:00:00Z`;

/** monthPeriod is a whole month. */
export function monthPeriod(month: string): Period {
  return {from: midnight(`${month}-01`), to: midnight(`${monthAfter(month)}-01`), flags: `--month ${month}`};
}

/** days are the days from one to another, both included. */
function days(from: string, to: string): Period {
  if (from === to) return {from: midnight(from), to: midnight(dayAfter(from)), flags: `--day ${from}`};
  return {from: midnight(from), to: midnight(dayAfter(to)), flags: `--from ${from} --to ${dayAfter(to)}`};
}

/** periodOf returns a named period; first and last are the days of "days". Days that do not exist, and a last day before the
 * first, count as today. */
export function periodOf(name: string, now: number, first = '', last = ''): Period {
  const today = dayOf(now);
  switch (name) {
    case 'yesterday':
      return days(dayAfter(today, -1), dayAfter(today, -1));
    case '7d':
      return days(dayAfter(today, -6), today);
    case '30d':
      return days(dayAfter(today, -29), today);
    case 'month':
      return monthPeriod(today.slice(0, 7));
    case 'last-month':
      return monthPeriod(monthAfter(today.slice(0, 7), -1));
    case 'days': {
      const from = isDay(first) ? first : today;
      const to = isDay(last) ? last : today;
      return days(from, to < from ? from : to);
    }
  }
  return days(today, today);
}
