import {Select, TextInput} from '@gravity-ui/uikit';
import {type ReactNode, useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {Report} from '../api/types';
import {csv, shellQuote} from '../model/format';
import {tableOf} from '../model/reports';
import {Loaded} from '../parts/states';
import {useQueryValue} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {often} from './promises';
import {commandOf, ReportFoot, type ReportProps} from './reports';
import {type Figure, keyColumn, ReportTable} from './reports_table';

const usage: Figure[] = [
  {column: 'jobs', title: 'Jobs ended', summed: true, always: true},
  {column: 'held_cpu_core_s', title: 'Core·h', hint: 'What jobs held while they ran', summed: true, always: true},
  {column: 'held_gpu_s', title: 'GPU·h', hint: 'What jobs held while they ran', summed: true},
  {column: 'held_memory_gib_s', title: 'GiB·h', hint: 'What jobs held while they ran', summed: true, always: true},
  {column: 'guarantee_cpu_core_s', title: 'By guarantee', hint: 'Core·h that guarantees of the pool covered', summed: true, always: true},
  {column: 'surplus_cpu_core_s', title: 'Surplus', hint: 'Core·h above what guarantees covered', summed: true, always: true},
  {column: 'used_cpu_core_s', title: 'Measured', hint: 'Core·h that the jobs that ended have used', summed: true, always: true},
  {column: 'lost_cpu_core_s', title: 'Lost', hint: 'Core·h of jobs that were preempted', summed: true, always: true},
  {column: 'failed_jobs', title: 'Failed jobs', summed: true, always: true},
  {column: 'cost_micros', title: 'Cost', hint: 'By the price list of the cluster; lines without jobs are reserved guarantees', summed: true},
];

const waits: Figure[] = [
  {column: 'operations', title: 'Operations', hint: 'Operations that started their first job in this time', summed: true, always: true},
  {column: 'mean_wait_s', title: 'Mean wait', hint: 'How long they had waited for it', always: true},
  {column: 'total_wait_s', title: 'Total wait', summed: true, always: true},
];

const savings: Figure[] = [
  {column: 'jobs', title: 'Jobs ended', summed: true, always: true},
  {column: 'memory_limit_gib_s', title: 'Limit, GiB·h', hint: 'Memory that jobs might have used', summed: true, always: true},
  {column: 'memory_reserved_gib_s', title: 'Reserved', hint: 'Memory that was reserved for jobs', summed: true, always: true},
  {column: 'memory_peak_gib_s', title: 'Peak', hint: 'The most memory that each job used, for as long as it ran', summed: true, always: true},
  {column: 'memory_saved_gib_s', title: 'Saved', hint: 'Limit minus reserved', summed: true, always: true},
  {column: 'memory_slack_gib_s', title: 'Slack', hint: 'Reserved minus peak', summed: true, always: true},
  {column: 'overdrafts', title: 'Overdrafts', hint: 'Jobs that were aborted because they needed more than was reserved', summed: true, always: true},
  {column: 'memory_net_gib_s', title: 'Net', hint: 'Saved minus the work of aborted jobs', summed: true, always: true},
  {column: 'cpu_requested_core_s', title: 'Requested, core·h', summed: true, always: true},
  {column: 'cpu_used_core_s', title: 'Used, core·h', summed: true, always: true},
  {column: 'cpu_reclaimed_core_s', title: 'Reclaimed', hint: 'Core·h that CPU reclaim took from jobs that did not use them', summed: true, always: true},
  {column: 'shadow_saved_gib_s', title: 'Might save', hint: 'GiB·h that learning would have saved for tasks that do not learn their memory', summed: true},
  {column: 'shadow_overdrafts', title: 'Might abort', hint: 'Jobs of those tasks that would have used more than they were given', summed: true},
];

const keyTitles: Record<string, Key> = {tree: 'Tree', pool: 'Pool', user: 'User', day: 'Day'};

export function UsageReport(props: ReportProps) {
  return <Lines {...props} report="usage" figures={usage} />;
}

export function WaitsReport(props: ReportProps) {
  return <Lines {...props} report="waits" figures={waits} />;
}

export function SavingsReport(props: ReportProps) {
  return <Lines {...props} report="savings" figures={savings} />;
}

interface LinesProps extends ReportProps {
  report: 'usage' | 'waits' | 'savings';
  figures: Figure[];
  /** tools are further fields; parameters and flags are what they add to the request and to the command. */
  tools?: ReactNode;
  parameters?: Record<string, unknown>;
  flags?: string;
}

/** Lines is a report whose lines are divided by what the reader chooses. */
function Lines({tree, period, report, figures, tools, parameters, flags = ''}: LinesProps) {
  const {t} = useTexts();
  const [given, setBy] = useQueryValue('by', 'pool,user');
  const [label, setLabel] = useQueryValue('label');
  const by = useMemo(() => {
    const keys = given.split(',').filter((key) => key in keyTitles);
    if (label) keys.push(`label:${label}`);
    return keys.length > 0 ? keys : ['pool', 'user'];
  }, [given, label]);
  const answer = useCommand<Report>('get_report', {report, pool_tree: tree, from_time: period.from, to_time: period.to, by, ...parameters}, {every: often});
  const keys = useMemo(() => by.map((key) => keyColumn(key, keyTitles[key] ? t(keyTitles[key]) : key.slice('label:'.length), tree)), [by, tree, t]);
  return (
    <>
      <div className="toolbar">
        <Select
          label={t('By')} title={t('By')} multiple width={230} value={given.split(',')} options={Object.entries(keyTitles).map(([value, title]) => ({value, content: t(title)}))}
          onUpdate={(values) => setBy(Object.keys(keyTitles).filter((key) => values.includes(key)).join(',') || 'pool,user')}
        />
        <TextInput
          className="toolbar__filter" value={label} onUpdate={setLabel} hasClear placeholder={t('Label')} controlProps={{'aria-label': t('Label')}}
        />
        {tools}
      </div>
      <Loaded of={answer}>
        {(data) => (
          <>
            <ReportTable label={t('Report')} report={data} keys={keys} figures={figures} empty={t('Nothing is in the books of this time.')} />
            {data.currency && <p className="muted">{t('Costs are in {currency}, by the price list of the cluster.', {currency: data.currency})}</p>}
            <ReportFoot
              command={commandOf(report, {tree, period}, ` --by ${shellQuote(by.join(','))}${flags}`)} name={`${report}-${period.from.slice(0, 10)}`}
              table={() => csv(...tableOf(data.from_time, data.to_time, data.columns, data.lines))}
            />
          </>
        )}
      </Loaded>
    </>
  );
}
