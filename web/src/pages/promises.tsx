import {Alert, Button, Icon} from '@gravity-ui/uikit';
import {ChevronLeft, ChevronRight} from '@gravity-ui/icons';
import {type KeyboardEvent, useMemo, useRef} from 'react';

import {useCommand} from '../api/queries';
import type {GuaranteeReport, PoolGuarantees} from '../api/types';
import {csv, duration, shellQuote} from '../model/format';
import {dayOf, isMonth, monthAfter, monthPeriod} from '../model/period';
import {type CalendarDay, calendarOf, guaranteesTable, partOf, percent, verdictOf} from '../model/promises';
import {saveAs} from '../parts/export';
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
      <Loaded of={whole}>{(data) => (data.pools.length === 0 ? <NoPromise /> : <Month lines={data.pools} />)}</Loaded>
      <Loaded of={byDay} lines={6}>{(data) => (data.pools.length === 0 ? null : <Calendar month={month} lines={data.pools} today={today} />)}</Loaded>
      <div>
        <div className="muted">{t('Equivalent command')}</div>
        <Command text={`weir report guarantees --tree ${shellQuote(tree)} --pool ${shellQuote(name)} ${flags} --by day`} />
      </div>
    </>
  );
}

function NoPromise() {
  const {t} = useTexts();
  return <Empty>{t('The pool had no guarantee in this month, so nothing was promised.')}</Empty>;
}

/** Month is the verdict on a month, with its figures. */
function Month({lines}: {lines: PoolGuarantees[]}) {
  const {t, locale} = useTexts();
  const part = partOf(lines);
  const verdict = verdictOf(lines);
  const time = lines.flatMap((line) => (line.kept_time === null ? [] : [line.kept_time]));
  return (
    <>
      {verdict === 'none' ? (
        <Alert theme="info" title={t('Nothing was due')} message={t('The pool asked for nothing of what it was promised. That is no verdict.')} />
      ) : (
        <Alert
          theme={verdict === 'kept' ? 'success' : 'danger'}
          title={t('{part} of what was due was kept', {part: percent(part, locale)})}
          message={time.length > 0 ? t('In {part} of the time at most 1% of it was broken.', {part: percent(Math.min(...time), locale)}) : undefined}
        />
      )}
      <PromiseFigures lines={lines} />
    </>
  );
}

function Calendar({month, lines, today}: {month: string; lines: PoolGuarantees[]; today: string}) {
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
      {shown ? <DayCauses day={shown} /> : <p className="muted">{t('Choose a day to see its causes.')}</p>}
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
  const number = Number(day.day.slice(8));
  if (day.future) return <span className="calendar__day calendar__day_future">{number}</span>;
  const verdict = t(verdictTexts[day.verdict]);
  const part = day.part === undefined ? '' : percent(day.part, locale);
  return (
    <button
      type="button" className={`calendar__day calendar__day_${day.verdict}`} aria-pressed={chosen} onClick={onChoose}
      aria-label={`${dayName(day.day, locale)}: ${verdict}${part ? `, ${part}` : ''}`} title={verdict}
    >
      <span className="calendar__number">{number}</span>
      <span className="calendar__verdict">
        <span aria-hidden="true">{glyphs[day.verdict]}</span> {part}
      </span>
    </button>
  );
}

function DayCauses({day}: {day: CalendarDay}) {
  const {t, locale} = useTexts();
  return (
    <Section title={`${dayName(day.day, locale, 'long')}: ${t(verdictTexts[day.verdict])}`}>
      {day.lines.length === 0 ? (
        <Empty>{t('Nothing is in the books of this day.')}</Empty>
      ) : (
        <>
          <PromiseFigures lines={day.lines} />
          {day.lines.map((line) => (
            <PromiseCauses key={line.resource} line={line} several={day.lines.length > 1} />
          ))}
          {day.lines.map((line) =>
            line.flow ? (
              <p key={line.resource}>
                {t('By its flow guarantee {due} of the whole tree were due, and the pool got {got} by it.', {
                  due: duration(line.flow.due * 1000, locale), got: duration(line.flow.got * 1000, locale),
                })}{' '}
                {line.flow.overflowed > 0 && t('{amount} flowed over the full volume unasked.', {amount: duration(line.flow.overflowed * 1000, locale)})}
              </p>
            ) : null,
          )}
        </>
      )}
    </Section>
  );
}
