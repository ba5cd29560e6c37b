import {Alert} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {Report, ReportLine} from '../api/types';
import {csv, decimal, duration} from '../model/format';
import {chanceOf, fewest, type ForecastSum, forecastSums, nominal, tableOf} from '../model/reports';
import type {Column} from '../parts/grid';
import {Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {type Key, useTexts} from '../text/i18n';
import {often} from './promises';
import {commandOf, ReportFoot, type ReportProps} from './reports';
import {type Figure, keyColumn, ReportTable} from './reports_table';

const figures: Figure[] = [
  {column: 'settled', title: 'Calibrated', hint: 'Calibrated forecasts whose outcome is known', summed: true, always: true},
  {column: 'held', title: 'Held', hint: 'Those whose outcome was within the interval', summed: true, always: true},
  {column: 'coverage', title: 'Coverage', hint: 'Held / calibrated; 90% is right, more is too wide, less is too narrow', always: true},
  {column: 'uncalibrated', title: 'Uncalibrated', hint: 'Forecasts with an outcome that were made before enough outcomes were known', summed: true, always: true},
  {column: 'median_width_s', title: 'Width', hint: 'The median length of the intervals', always: true},
  {column: 'pinball_s', title: 'Loss', hint: 'Pinball loss of what was published; less is better', always: true},
  {column: 'compared', title: 'Compared', hint: 'Forecasts that both the ensemble and the history made', summed: true, always: true},
  {column: 'compared_pinball_s', title: 'Published', hint: 'Pinball loss on those', always: true},
  {column: 'compared_ensemble_s', title: 'Ensemble alone', hint: 'Pinball loss of the ensemble on those', always: true},
  {column: 'compared_history_s', title: 'History alone', hint: 'Pinball loss of the quantiles of recent waits on those', always: true},
];

/** targets name what a forecast is about. */
const targets: Record<string, Key> = {start: 'Start of operations', finish: 'Finish of operations'};

/** ForecastReport shows how well forecasts held. */
export function ForecastReport(props: ReportProps) {
  const {t} = useTexts();
  const {tree, period} = props;
  const answer = useCommand<Report>('get_report', {report: 'forecasts', pool_tree: tree, from_time: period.from, to_time: period.to}, {every: often});
  const keys = useMemo<Column<ReportLine>[]>(
    () => [
      keyColumn('pool', t('Pool'), tree),
      {
        key: 'target', title: t('Target'), width: 160, value: (line) => String(line['target']),
        render: (line) => (targets[String(line['target'])] ? t(targets[String(line['target'])]!) : String(line['target'])),
      },
    ],
    [t, tree],
  );
  return (
    <Loaded of={answer}>
      {(data) => {
        const sums = forecastSums(data.lines);
        return (
          <>
            <p className="muted">
              {t('The report is about forecasts that were made in this time and whose outcome is known. An interval should hold in 90% of all cases.')}
            </p>
            {sums.length === 0 ? <Empty>{t('No forecast of this time has an outcome yet.')}</Empty> : sums.map((sum) => <Target key={sum.target} sum={sum} />)}
            {sums.length > 0 && (
              <Section title={t('By pool')}>
                <ReportTable label={t('Forecast accuracy')} report={data} keys={keys} figures={figures} empty="" />
              </Section>
            )}
            <ReportFoot
              command={commandOf('forecasts', props)} name={`forecasts-${period.from.slice(0, 10)}`}
              table={() => csv(...tableOf(data.from_time, data.to_time, data.columns, data.lines))}
            />
          </>
        );
      }}
    </Loaded>
  );
}

/** Target says how well the forecasts of a target held, or that too few have an outcome to say it. */
function Target({sum}: {sum: ForecastSum}) {
  const {t, locale} = useTexts();
  const enough = sum.settled >= fewest;
  const [low, high] = chanceOf(sum.held, sum.settled);
  const percent = (part: number) => decimal(part * 100, locale, 1);
  const title = targets[sum.target] ? t(targets[sum.target]!) : sum.target;
  const right = low <= nominal && nominal <= high;
  return (
    <Section title={title} actions={<span className="muted">{t('{n} {n|forecast|forecasts} scored', {n: sum.scored})}</span>}>
      {enough ? (
        <>
          <Alert
            theme={right ? 'success' : 'warning'}
            title={t('{part}% of {n} intervals held; {nominal}% should', {part: percent(sum.held / sum.settled), n: sum.settled, nominal: percent(nominal)})}
            message={t(right ? 'By chance it may be anything from {low}% to {high}%: that contains {nominal}%.' : 'By chance it may be anything from {low}% to {high}%: {nominal}% is outside.', {
              low: percent(low), high: percent(high), nominal: percent(nominal),
            })}
          />
          <Coverage sum={sum} low={low} high={high} label={title} />
        </>
      ) : (
        <Alert
          theme="info" title={t('Too few forecasts are scored to say how well they hold')}
          message={t('{n} of {least} calibrated forecasts have an outcome; {m} were made before that and are not calibrated: they are often too narrow.', {
            n: sum.settled, least: fewest, m: sum.uncalibrated,
          })}
        />
      )}
      <Losses sum={sum} label={title} />
    </Section>
  );
}

/** Coverage draws what held with its interval of chance, and the part that should have held. */
function Coverage({sum, low, high, label}: {sum: ForecastSum; low: number; high: number; label: string}) {
  const {t, locale} = useTexts();
  const at = (part: number) => `${part * 100}%`;
  const text = t('{label}: coverage {part}%, nominal {nominal}%', {
    label, part: decimal((sum.held / sum.settled) * 100, locale, 1), nominal: decimal(nominal * 100, locale, 0),
  });
  return (
    <div className="coverage" role="img" aria-label={text}>
      <span className="coverage__band" style={{insetInlineStart: at(low), width: at(high - low)}} />
      <span className="coverage__point" style={{insetInlineStart: at(sum.held / sum.settled)}} />
      <span className="coverage__nominal" style={{insetInlineStart: at(nominal)}} title={t('nominal')} />
      {[0, 0.25, 0.5, 0.75, 1].map((part) => (
        <span key={part} className="coverage__tick" style={{insetInlineStart: at(part)}} aria-hidden="true">
          {part * 100}%
        </span>
      ))}
    </div>
  );
}

/** Losses compares the loss of what was published with those of the baselines, on the forecasts that all of them made. */
function Losses({sum, label}: {sum: ForecastSum; label: string}) {
  const {t, locale} = useTexts();
  const compared = sum.compared;
  if (!compared) {
    return sum.shown === undefined ? null : (
      <p>{t('Mean pinball loss: {loss}. No forecast was made by both the ensemble and the history yet, so there is nothing to compare.', {loss: duration(sum.shown * 1000, locale)})}</p>
    );
  }
  const rows: [string, number][] = [
    [t('Published'), compared.shown],
    [t('Ensemble alone'), compared.ensemble],
    [t('History alone'), compared.history],
  ];
  const most = Math.max(1e-9, ...rows.map(([, loss]) => loss));
  const best = Math.min(...rows.map(([, loss]) => loss));
  return (
    <table className="plain plain_bars plain_narrow" aria-label={t('{label}: loss', {label})}>
      <thead>
        <tr>
          <th>{t('Loss')}</th>
          <th />
          <th>{t('mean pinball loss of the {n} {n|forecast|forecasts} that both made; less is better', {n: compared.count})}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, loss]) => (
          <tr key={name}>
            <th scope="row" className="nowrap">
              {name}
            </th>
            <td className="numeric nowrap">{duration(loss * 1000, locale)}</td>
            <td>
              <span className={`hbar${loss === best ? ' hbar_best' : ''}`} style={{width: `${(loss / most) * 100}%`}} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
