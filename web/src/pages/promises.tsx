import {Alert, Button, Icon} from '@gravity-ui/uikit';
import {ChevronLeft, ChevronRight} from '@gravity-ui/icons';
import {type KeyboardEvent, useMemo, useRef} from 'react';

import {useCommand} from '../api/queries';
import type {GuaranteeReport, PoolGuarantees} from '../api/types';
import {csv, duration, shellQuote} from '../model/format';
import {dayOf, isMonth, monthAfter, monthPeriod} from '../model/period';
import {type CalendarDay, calendarOf, guaranteesTable, partOf, percent, verdictOf} from '../model/promises';
import {saveAs} from '../parts/export';
import {useNarrow} from '../parts/narrow';
import {Command, Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {setQuery, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {PromiseCauses, PromiseFigures, verdictTexts} from './promises_day';

/** often is how often books are read again; the server writes them every ten seconds. */
export const often = 10_000;

/** PromisesTab shows what a pool was promised and what it got, by day. */
export function PromisesTab({tree, name}: {tree: string; name: string}) {
  const {t, locale} = useTexts();
  const today = dayOf(Date.now());
  const thisMonth = today.slice(0, 7);
  const [given] = useQueryValue('month', thisMonth);
  const month = isMonth(given) && given <= thisMonth ? given : thisMonth;
  const {from, to, flags} = monthPeriod(month);
  const query = {report: 'guarantees', pool_tree: tree, pool: name, from_time: from, to_time: to};
  const whole = useCommand<GuaranteeReport>('get_report', query, {every: often});
  const byDay = useCommand<GuaranteeReport>('get_report', {...query, by: ['day']}, {every: often});
  const show = (next: string) => setQuery({month: next === thisMonth ? '' : next, day: ''});
  const title = new Date(from).toLocaleDateString(locale === 'ru' ? 'ru-RU' : 'en-GB', {month: 'long', year: 'numeric', timeZone: 'UTC'});
  return (
    <>
      <div className="toolbar">
        <Button view="outlined" onClick={() => show(monthAfter(month, -1))} aria-label={t('Previous month')}>
          <Icon data={ChevronLeft} size={16} />
        </Button>
        <h2 className="promises__month">{title}</h2>
        <Button view="outlined" disabled={month >= thisMonth} onClick={() => show(monthAfter(month))} aria-label={t('Next month')}>
          <Icon data={ChevronRight} size={16} />
        </Button>
        <Button
          view="outlined" disabled={!byDay.data}
          onClick={() => saveAs(`promises-${name}-${month}.csv`, 'text/csv', csv(...guaranteesTable(from, to, byDay.data?.pools ?? [])))}
        >
          {t('Download CSV')}
        </Button>
      </div>
      <Loaded of={whole}>
        {(data) =>
          data.pools.length === 0 ? (
            <Empty>{t('The pool had no guarantee in this month, so nothing was promised.')}</Empty>
          ) : (
            <>
              <MonthVerdict lines={data.pools} />
              <Loaded of={byDay} lines={6}>
                {(days) => <Calendar month={month} title={title} whole={data.pools} lines={days.pools} today={today} />}
              </Loaded>
            </>
          )
        }
      </Loaded>
      <div>
        <div className="muted">{t('Equivalent command')}</div>
        <Command text={`weir report guarantees --tree ${shellQuote(tree)} --pool ${shellQuote(name)} ${flags} --by day`} />
      </div>
    </>
  );
}

/** MonthVerdict says whether the promise of a month was kept. */
function MonthVerdict({lines}: {lines: PoolGuarantees[]}) {
  const {t, locale} = useTexts();
  const part = partOf(lines);
  const verdict = verdictOf(lines);
  const time = lines.flatMap((line) => (line.kept_time === null ? [] : [line.kept_time]));
  if (verdict === 'none') {
    return <Alert theme="info" title={t('Nothing was due')} message={t('The pool asked for nothing of what it was promised. That is no verdict.')} />;
  }
  return (
    <Alert
      theme={verdict === 'kept' ? 'success' : 'danger'}
      title={t('{part} of what was due was kept', {part: percent(part, locale)})}
      message={time.length > 0 ? t('In {part} of the time at most 1% of it was broken.', {part: percent(Math.min(...time), locale)}) : undefined}
    />
  );
}

interface CalendarProps {
  month: string;
  title: string;
  /** whole are the books of the month, lines those of its days. */
  whole: PoolGuarantees[];
  lines: PoolGuarantees[];
  today: string;
}

/** Calendar shows the verdict on each day, and the causes of the chosen one or else of the month. */
function Calendar({month, title, whole, lines, today}: CalendarProps) {
  const {t, locale} = useTexts();
  const [chosen, setChosen] = useQueryValue('day');
  const weeks = useMemo(() => calendarOf(month, lines, today), [month, lines, today]);
  const table = useRef<HTMLTableElement>(null);
  const days = weeks.flat().filter((day) => day !== undefined);
  const shown = days.find((day) => day.day === chosen);
  const tag = locale === 'ru' ? 'ru-RU' : 'en-GB';
  // 2024 began with a Monday.
  const weekdays = Array.from({length: 7}, (_, i) => new Date(Date.UTC(2024, 0, 1 + i)).toLocaleDateString(tag, {weekday: 'short', timeZone: 'UTC'}));
  const move = (event: KeyboardEvent) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7}[event.key];
    const all = [...(table.current?.querySelectorAll<HTMLButtonElement>('button') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    if (step === undefined || at < 0) return;
    all[at + step]?.focus();
    event.preventDefault();
  };
  return (
    <>
      <Section title={t('Days')} actions={<span className="muted">{t('Days are of UTC. A day is kept if at least 99% of what was due was not broken.')}</span>}>
        <div className="scroll" tabIndex={0} role="region" aria-label={t('Days')}>
          <table className="calendar" ref={table} onKeyDown={move}>
            <thead>
              <tr>
                {weekdays.map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {weeks.map((week, i) => (
                <tr key={i}>
                  {week.map((day, j) => (
                    <td key={j}>
                      {day && <Day day={day} chosen={day.day === chosen} onChoose={() => setChosen(day.day === chosen ? '' : day.day)} />}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Section>
      <Section
        title={shown ? `${dayName(shown.day, locale, 'long')}: ${t(verdictTexts[shown.verdict])}` : title}
        actions={!shown && <span className="muted">{t('Choose a day to see its causes.')}</span>}
      >
        <Books lines={shown ? shown.lines : whole} />
      </Section>
    </>
  );
}

const glyphs = {kept: '✓', broken: '✕', none: '–'};

/** dayName prints a day with its weekday or without. */
function dayName(day: string, locale: 'en' | 'ru', weekday?: 'long'): string {
  return new Date(`${day}T00:00:00Z`).toLocaleDateString(locale === 'ru' ? 'ru-RU' : 'en-GB', {day: 'numeric', month: 'long', weekday, timeZone: 'UTC'});
}

function Day({day, chosen, onChoose}: {day: CalendarDay; chosen: boolean; onChoose: () => void}) {
  const {t, locale} = useTexts();
  const narrow = useNarrow();
  const number = Number(day.day.slice(8));
  if (day.future) return <span className="calendar__day calendar__day_future">{number}</span>;
  const verdict = t(verdictTexts[day.verdict]);
  const part = day.part === undefined ? '' : percent(day.part, locale);
  const shown = narrow && day.part !== undefined ? `${Math.floor(day.part * 100 + 1e-6)}%` : part;
  return (
    <button type="button" className={`calendar__day calendar__day_${day.verdict}`} aria-pressed={chosen} onClick={onChoose} title={verdict}>
      <span className="calendar__number">
        {number}
        <span className="hidden">{`${dayName(day.day, locale).replace(/^\d+/, '')}: ${verdict}${shown && ','}`}</span>
      </span>
      <span className="calendar__verdict">
        <span aria-hidden="true">{glyphs[day.verdict]}</span> {shown}
      </span>
    </button>
  );
}

/** Books are the figures and causes of a time. */
function Books({lines}: {lines: PoolGuarantees[]}) {
  const {t, locale} = useTexts();
  if (lines.length === 0) return <Empty>{t('Nothing is in the books of this day.')}</Empty>;
  return (
    <>
      <PromiseFigures lines={lines} />
      {lines.map((line) => (
        <PromiseCauses key={line.resource} line={line} several={lines.length > 1} />
      ))}
      {lines.map(({resource, flow}) =>
        flow ? (
          <p key={resource}>
            {t('By its flow guarantee {due} of the whole tree were due, and the pool got {got} by it.', {
              due: duration(flow.due * 1000, locale), got: duration(flow.got * 1000, locale),
            })}{' '}
            {flow.overflowed > 0 && t('{amount} flowed over the full volume unasked.', {amount: duration(flow.overflowed * 1000, locale)})}
          </p>
        ) : null,
      )}
    </>
  );
}
