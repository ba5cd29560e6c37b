import {Button, Select, Tab, TabList, TabPanel, TabProvider} from '@gravity-ui/uikit';

import {type Period, periodOf, periods, dayOf} from '../model/period';
import {type ReportName, reportNames} from '../model/reports';
import {shellQuote} from '../model/format';
import {saveAs} from '../parts/export';
import {Command} from '../parts/small';
import {useCluster} from '../shell/cluster';
import {useQueryValue} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {BudgetReport} from './reports_budgets';
import {ForecastReport} from './reports_forecasts';
import {PreemptionsReport} from './reports_preemptions';
import {PromisesReport} from './reports_promises';
import {SavingsReport, UsageReport, WaitsReport} from './reports_usage';

const titles: Record<ReportName, Key> = {
  promises: 'Promises', usage: 'Usage', waits: 'Waits', savings: 'Savings', budgets: 'Budgets', preemptions: 'Preemptions', forecasts: 'Forecast accuracy',
};

const periodTitles: Record<(typeof periods)[number], Key> = {
  today: 'Today', yesterday: 'Yesterday', '7d': 'Last 7 days', '30d': 'Last 30 days', month: 'This month', 'last-month': 'Last month', days: 'From day to day',
};

/** ReportProps say what a report is about. */
export interface ReportProps {
  tree: string;
  period: Period;
}

/** ReportsPage has the reports about the past, for all pools of a tree. */
export function ReportsPage() {
  const {t} = useTexts();
  const cluster = useCluster();
  const [given, setReport] = useQueryValue('report', 'promises');
  const report = reportNames.find((name) => name === given) ?? 'promises';
  const [chosenTree, setTree] = useQueryValue('tree');
  const trees = Object.keys(cluster.data?.pool_trees ?? {}).sort();
  const tree = chosenTree || cluster.data?.default_pool_tree || '';
  const period = usePeriod();
  const props = {tree, period: period.value};
  const reports: Record<ReportName, () => React.ReactNode> = {
    promises: () => <PromisesReport {...props} />, usage: () => <UsageReport {...props} />, waits: () => <WaitsReport {...props} />,
    savings: () => <SavingsReport {...props} />, budgets: () => <BudgetReport {...props} />, preemptions: () => <PreemptionsReport {...props} />, forecasts: () => <ForecastReport {...props} />,
  };
  return (
    <div className="page">
      <h1 className="page__title">{t('Reports')}</h1>
      <div className="toolbar">
        {trees.length > 1 && (
          <Select
            label={t('Tree')} title={t('Tree')} value={[tree]} options={trees.map((value) => ({value, content: value}))} onUpdate={([value]) => setTree(value ?? '')}
          />
        )}
        {period.choice}
      </div>
      <TabProvider value={report} onUpdate={setReport}>
        <TabList>
          {reportNames.map((name) => (
            <Tab key={name} value={name}>
              {t(titles[name])}
            </Tab>
          ))}
        </TabList>
        <div className="tabbody">
          {reportNames.map((name) => (
            <TabPanel key={name} value={name}>
              {name === report && tree !== '' && reports[name]()}
            </TabPanel>
          ))}
        </div>
      </TabProvider>
    </div>
  );
}

/** usePeriod is the period in the address, with fields to choose another. */
function usePeriod() {
  const {t} = useTexts();
  const [name, setName] = useQueryValue('period', 'today');
  const [first, setFirst] = useQueryValue('from');
  const [last, setLast] = useQueryValue('to');
  const today = dayOf(Date.now());
  const field = (label: string, value: string, set: (day: string) => void) => (
    <label className="field">
      {label}
      <input type="date" className="field__input" value={value || today} max={today} onChange={(event) => set(event.target.value)} />
    </label>
  );
  const choice = (
    <>
      <Select
        label={t('Period')} title={t('Period')} width={230} value={[name]}
        options={periods.map((value) => ({value, content: t(periodTitles[value])}))} onUpdate={([value]) => value && setName(value)}
      />
      {name === 'days' && field(t('From'), first, setFirst)}
      {name === 'days' && field(t('to'), last, setLast)}
      <span className="muted">{t('Days are of UTC; reports consist of whole hours.')}</span>
    </>
  );
  return {value: periodOf(name, Date.now(), first, last), choice};
}

/** ReportFoot has the command that prints the report, and saves it as the command with -o csv would. */
export function ReportFoot({command, name, table}: {command: string; name: string; table: () => string}) {
  const {t} = useTexts();
  return (
    <div className="reportfoot">
      <Button view="outlined" onClick={() => saveAs(`${name}.csv`, 'text/csv', table())}>
        {t('Download CSV')}
      </Button>
      <Command text={command} />
    </div>
  );
}

/** commandOf returns the command that prints a report. */
export function commandOf(report: string, {tree, period}: ReportProps, more = ''): string {
  return `weir report ${report} --tree ${shellQuote(tree)} ${period.flags}${more}`;
}
