import {useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {GuaranteeReport} from '../api/types';
import {csv, plainVolume, volumeUnit} from '../model/format';
import {dayAfter, dayOf} from '../model/period';
import {type CalendarDay, causesOf, guaranteesTable, partOf, percent, type PoolDays, poolsOf, verdictOf} from '../model/promises';
import {Anchor} from '../parts/anchor';
import {Empty, Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {often} from './promises';
import {verdictTexts} from './promises_day';
import {commandOf, ReportFoot, type ReportProps} from './reports';

/** PromisesReport lists all pools with a promise: what was due, what they got, and a strip of days. */
export function PromisesReport(props: ReportProps) {
  const {tree, period} = props;
  const query = {report: 'guarantees', pool_tree: tree, from_time: period.from, to_time: period.to};
  const whole = useCommand<GuaranteeReport>('get_report', query, {every: often});
  const byDay = useCommand<GuaranteeReport>('get_report', {...query, by: ['day']}, {every: often});
  const {t} = useTexts();
  return (
    <Loaded of={whole}>
      {(data) => (
        <>
          {data.pools.length === 0 ? <Empty>{t('No pool had a guarantee.')}</Empty> : <Pools {...props} whole={data} byDay={byDay.data} />}
          <ReportFoot
            command={commandOf('guarantees', props)} name={`promises-${period.from.slice(0, 10)}`}
            table={() => csv(...guaranteesTable(data.from_time, data.to_time, data.pools))}
          />
        </>
      )}
    </Loaded>
  );
}

function Pools({tree, period, whole, byDay}: ReportProps & {whole: GuaranteeReport; byDay: GuaranteeReport | undefined}) {
  const {t} = useTexts();
  const today = dayOf(Date.now());
  const last = dayAfter(period.to.slice(0, 10), -1);
  const first = period.from.slice(0, 10);
  const pools = useMemo(
    () => poolsOf(whole.pools, byDay?.pools ?? [], first, last < today ? last : today, today), [whole, byDay, first, last, today],
  );
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t('Promises')}>
      <table className="plain">
        <thead>
          <tr>
            <th>{t('Pool')}</th>
            <th className="numeric" title={t('1 − broken / due')}>
              {t('Kept (SLO)')}
            </th>
            <th className="numeric" title={t('The part of the time in which at most 1% of what was due was broken')}>
              {t('Time kept')}
            </th>
            <th>{t('Days')}</th>
            <th>{t('Unit')}</th>
            <th className="numeric">{t('Promised')}</th>
            <th className="numeric">{t('Asked')}</th>
            <th className="numeric">{t('Due')}</th>
            <th className="numeric">{t('Got')}</th>
            <th className="numeric">{t('Short')}</th>
            <th>{t('Short by cause')}</th>
          </tr>
        </thead>
        <tbody>
          {pools.map((pool) => (
            <PoolLines key={pool.pool} tree={tree} pool={pool} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** PoolLines are the lines of a pool: one for each resource that was dominant. */
function PoolLines({tree, pool}: {tree: string; pool: PoolDays}) {
  const {t, word, locale} = useTexts();
  const verdict = verdictOf(pool.lines);
  const rows = pool.lines.length;
  const time = pool.lines.flatMap((line) => (line.kept_time === null ? [] : [line.kept_time]));
  return pool.lines.map((line, i) => (
    <tr key={line.resource}>
      {i === 0 && (
        <>
          <th scope="row" rowSpan={rows}>
            <Anchor href={`${to.pool(tree, pool.pool)}?tab=promises`}>{pool.pool}</Anchor>
          </th>
          <td rowSpan={rows} className={`numeric${verdict === 'broken' ? ' danger' : verdict === 'kept' ? ' good' : ''}`} title={t(verdictTexts[verdict])}>
            {percent(partOf(pool.lines), locale)}
          </td>
          <td rowSpan={rows} className="numeric">
            {percent(time.length > 0 ? Math.min(...time) : null, locale)}
          </td>
          <td rowSpan={rows}>
            <Strip tree={tree} pool={pool.pool} days={pool.days} />
          </td>
        </>
      )}
      <td className="nowrap">{volumeUnit(line.resource, locale)}</td>
      {[line.promised, line.asked, line.due, line.got, line.short].map((value, j) => (
        <td key={j} className="numeric nowrap">
          {plainVolume(line.resource, value, locale)}
        </td>
      ))}
      <td className="plain__text">
        {causesOf(line)
          .map((cause) => `${word(cause.cause)} ${plainVolume(line.resource, cause.amount, locale)}`)
          .join(', ')}
      </td>
    </tr>
  ));
}

/** Strip has a small mark for each day, which leads to the causes of that day. */
function Strip({tree, pool, days}: {tree: string; pool: string; days: CalendarDay[]}) {
  const {t, locale} = useTexts();
  return (
    <span className="strip">
      {days.map((day) => (
        <Anchor
          key={day.day} className={`strip__day strip__day_${day.verdict}`} href={`${to.pool(tree, pool)}?tab=promises&month=${day.day.slice(0, 7)}&day=${day.day}`}
          title={`${day.day}: ${t(verdictTexts[day.verdict])}${day.part === undefined ? '' : `, ${percent(day.part, locale)}`}`}
        >
          <span className="hidden">{day.day}: {t(verdictTexts[day.verdict])}</span>
        </Anchor>
      ))}
    </span>
  );
}
