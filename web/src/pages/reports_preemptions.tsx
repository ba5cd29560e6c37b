import {Alert} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {Event, PreemptionReport, ReportLine} from '../api/types';
import {csv, shortId} from '../model/format';
import {tableOf} from '../model/reports';
import {Anchor} from '../parts/anchor';
import type {Column} from '../parts/grid';
import {Moment, Section} from '../parts/small';
import {Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {often} from './promises';
import {commandOf, ReportFoot, type ReportProps} from './reports';
import {type Figure, keyColumn, ReportTable} from './reports_table';

const figures: Figure[] = [
  {column: 'jobs', title: 'Jobs', summed: true, always: true},
  {column: 'wasted_jobs', title: 'Wasted jobs', hint: 'Preempted for a job that never began', summed: true, always: true},
  {column: 'lost_cpu_core_s', title: 'Lost, core·h', hint: 'The work of jobs that did not end by themselves in time', summed: true, always: true},
  {column: 'lost_gpu_s', title: 'Lost, GPU·h', summed: true},
  {column: 'lost_memory_gib_s', title: 'Lost, GiB·h', summed: true, always: true},
  {column: 'wasted_cpu_core_s', title: 'Wasted, core·h', hint: 'The part of it that was preempted for a job that never began', summed: true, always: true},
  {column: 'gained_cpu_core_s', title: 'Gained, core·h', hint: 'What jobs of the winner had in this room while they ran', summed: true, always: true},
  {column: 'net_cpu_core_s', title: 'Net, core·h', hint: 'Gained minus lost', summed: true, always: true},
];

const rules: Record<string, Key> = {
  starving: 'A starving operation or pool took what was above a fair share.',
  aggressive: 'An aggressively starving operation or pool took what was within a fair share.',
  limit: 'Limits were violated.',
  node: 'The node had less than its jobs held.',
  graceful: 'Graceful preemption.',
};

/** PreemptionsReport shows who lost what to whom, by which rule, and whether that went in circles. */
export function PreemptionsReport(props: ReportProps) {
  const {t, word} = useTexts();
  const {tree, period} = props;
  const answer = useCommand<PreemptionReport>('get_report', {report: 'preemptions', pool_tree: tree, from_time: period.from, to_time: period.to}, {every: often});
  const keys = useMemo<Column<ReportLine>[]>(
    () => [
      keyColumn('victim', t('From pool'), tree),
      keyColumn('winner', t('For pool'), tree),
      {
        key: 'rule', title: t('Rule'), width: 110, value: (line) => String(line['rule']),
        render: (line) => <span title={rules[String(line['rule'])] && t(rules[String(line['rule'])]!)}>{word(String(line['rule']))}</span>,
      },
    ],
    [t, word, tree],
  );
  return (
    <Loaded of={answer}>
      {(data) => (
        <>
          <Watch data={data} />
          <ReportTable label={t('Preemptions')} report={data} keys={keys} figures={figures} empty={t('No preemptions')} />
          {data.lines.length + data.cycles.length > 0 && (
            <Section title={t('Cycles')}>{data.cycles.length === 0 ? <p>{t('No operations preempted each other in turn.')}</p> : <Cycles events={data.cycles} />}</Section>
          )}
          <ReportFoot
            command={commandOf('preemptions', props)} name={`preemptions-${period.from.slice(0, 10)}`}
            table={() => csv(...tableOf(data.from_time, data.to_time, data.columns, data.lines))}
          />
        </>
      )}
    </Loaded>
  );
}

/** Watch says in how many minutes cycles are proven absent. */
function Watch({data}: {data: PreemptionReport}) {
  const {t} = useTexts();
  const {minutes, proven, cycles} = data.watch;
  if (minutes === 0) return null;
  const text = t('In {proven} of {minutes} {minutes|minute|minutes} with preemptions cycles are proven absent.', {proven, minutes});
  return <Alert theme={cycles > 0 ? 'warning' : proven === minutes ? 'success' : 'info'} message={cycles > 0 ? `${text} ${t('{n} {n|cycle was|cycles were} found.', {n: cycles})}` : text} />;
}

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

function Cycles({events}: {events: Event[]}) {
  const {t, word} = useTexts();
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t('Cycles')}>
      <table className="plain">
        <thead>
          <tr>
            <th>{t('Time')}</th>
            <th>{t('Operations')}</th>
            <th>{t('Pools')}</th>
            <th>{t('Premises that failed')}</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.id}>
              <td>
                <Moment at={event.timestamp} />
              </td>
              <td>
                {texts(event['operations']).map((id, i) => (
                  <span key={id}>
                    {i > 0 && ', '}
                    <Anchor href={to.operation(id)}>{shortId(id)}</Anchor>
                  </span>
                ))}
              </td>
              <td>{texts(event['pools']).join(', ')}</td>
              <td>{String(event['premises'] ?? '').split(/,\s*/).map(word).join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
