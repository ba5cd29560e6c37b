import type {PoolGuarantees} from '../api/types';
import {share, volume} from '../model/format';
import {causesOf, percent, type Verdict} from '../model/promises';
import {PartsBar} from '../parts/bars';
import {type Key, useTexts} from '../text/i18n';

export const verdictTexts: Record<Verdict, Key> = {kept: 'kept', broken: 'broken', none: 'nothing was due'};

/** explanations say what each cause of a shortage is. */
const explanations: Record<string, Key> = {
  scheduler_away: 'No scheduler led, or the leader was reviving, overloaded, or its store did not answer.',
  count_limit: 'Only operations asked for it that a limit on running operations keeps waiting.',
  own_limit: 'Limits of the pool, or of pools and operations below it, forbid it.',
  parent_limit: 'Limits of pools above it forbid it, next to what others use there.',
  volume_empty: 'Neither the saved volume nor the flow paid for this part of the burst guarantee.',
  node_loss: 'Nodes that were there in the last 30 days are offline, banned, disabled or draining.',
  oversold: 'The tree, or a pool above, never had what it promised.',
  share_withheld: 'The fair share was below the guarantee: gangs, FIFO order, promises inside promises.',
  filter_or_fragmentation: 'It was free on nodes where no waiting job of the pool fits.',
  preemption_delay: 'Others used it above their fair shares, and were not preempted yet.',
  placing: 'It was free where jobs fit, and not handed out yet.',
  unexplained: 'The books do not explain this part: report it as a bug.',
};

/** PromiseFigures shows what was promised, asked for, due and got, for each resource. */
export function PromiseFigures({lines}: {lines: PoolGuarantees[]}) {
  const {t, word, locale} = useTexts();
  const columns: [Key, Key, (line: PoolGuarantees) => number][] = [
    ['Promised', 'The strong guarantee and, in burst pools, the burst guarantee', (line) => line.promised],
    ['Asked', 'The demand', (line) => line.asked],
    ['Due', 'The part of the promise that was asked for', (line) => line.due],
    ['Got', 'The usage', (line) => line.got],
    ['Short', 'What was due and not there, at every moment', (line) => line.short],
    ['Broken', 'Short by causes that are not settings of the pool itself', (line) => line.broken],
  ];
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t('Promised and got')}>
      <table className="plain plain_narrow">
        <thead>
          <tr>
            <th>{t('Resource')}</th>
            {columns.map(([title, hint]) => (
              <th key={title} className="numeric" title={t(hint)}>
                {t(title)}
              </th>
            ))}
            <th className="numeric" title={t('1 − broken / due')}>
              {t('Kept (SLO)')}
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.resource}>
              <th scope="row">{word(line.resource)}</th>
              {columns.map(([title, , value]) => (
                <td key={title} className="numeric">
                  {volume(line.resource, value(line), locale)}
                </td>
              ))}
              <td className="numeric">{percent(line.kept, locale)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** PromiseCauses divides what a pool lacked by cause; several means that other resources have a list too. */
export function PromiseCauses({line, several}: {line: PoolGuarantees; several?: boolean}) {
  const {t, word, locale} = useTexts();
  const causes = causesOf(line);
  if (causes.length === 0) return line.due > 0 ? <p>{t('Everything that was due was there.')}</p> : null;
  const title = several ? t('Short by cause: {resource}', {resource: word(line.resource)}) : t('Short by cause');
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={title}>
      <table className="plain">
        <thead>
          <tr>
            <th>{title}</th>
            <th className="numeric">{t('Amount')}</th>
            <th className="numeric">{t('Of due')}</th>
            <th aria-label={t('Of due')} className="plain__bar" />
            <th>{t('Promise')}</th>
            <th>{t('What it is')}</th>
          </tr>
        </thead>
        <tbody>
          {causes.map((cause) => (
            <tr key={cause.cause}>
              <th scope="row">{word(cause.cause)}</th>
              <td className="numeric">{volume(line.resource, cause.amount, locale)}</td>
              <td className="numeric">{share(line.due > 0 ? cause.amount / line.due : 0, locale)}</td>
              <td className="plain__bar">
                <PartsBar
                  whole={line.due} label={share(line.due > 0 ? cause.amount / line.due : 0, locale)}
                  parts={[{kind: cause.own ? 'weight' : 'full', value: cause.amount, title: ''}]}
                />
              </td>
              <td>{cause.own ? <span className="muted">{t('its own settings')}</span> : <span className="danger">{t('broken')}</span>}</td>
              <td>{explanations[cause.cause] ? t(explanations[cause.cause]!) : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
