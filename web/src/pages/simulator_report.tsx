import {Alert, Button, Select, SegmentedRadioGroup} from '@gravity-ui/uikit';
import {type ReactNode, useMemo} from 'react';

import type {Resource, SimulatedOperation, SimulationReport} from '../api/types';
import {amount, decimal, duration, share} from '../model/format';
import {averageOf, elapsed, keptOf, primaryOf, timesOf, troublesOf, usedResources, waitOf} from '../model/report';
import {saveAs} from '../parts/export';
import {Chart, colors, type Line, palette} from '../parts/chart';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Section, State} from '../parts/small';
import {useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';

const seconds = (value: number, locale: 'en' | 'ru') => duration(value * 1000, locale);

/** Report shows the result of a simulation, like the page that weir simulate --html writes. */
export function Report({report, took}: {report: SimulationReport; took: number}) {
  const {t, locale} = useTexts();
  const troubles = useMemo(() => troublesOf(report), [report]);
  return (
    <>
      <Section
        title={report.scenario}
        actions={
          <>
            <span className="muted">
              {t('{span} of virtual time in {took}, seed {seed}', {span: seconds(report.seconds, locale), took: duration(took, locale), seed: report.seed})}
            </span>
            <Button view="flat" size="s" onClick={() => saveAs('simulation.json', 'application/json', JSON.stringify(report))}>
              JSON
            </Button>
          </>
        }
      >
        {report.description && <p>{report.description}</p>}
        {report.stalled && <Alert theme="warning" message={t('The run ended because nothing more could start.')} />}
        {troubles.length > 0 && <Alert theme="warning" message={<Few texts={troubles} />} />}
        <Tiles report={report} />
      </Section>
      <Expectations report={report} />
      <ClusterCharts report={report} />
      <Pools report={report} />
      <PoolCharts report={report} />
      <Operations report={report} />
      <Work report={report} />
    </>
  );
}

function Few({texts}: {texts: string[]}) {
  const most = 5;
  return (
    <ul className="reasons">
      {texts.slice(0, most).map((text, i) => (
        <li key={i}>{text}</li>
      ))}
      {texts.length > most && <li>+{texts.length - most}</li>}
    </ul>
  );
}

function Tiles({report}: {report: SimulationReport}) {
  const {t, word, locale} = useTexts();
  const {cluster} = report;
  const primary = primaryOf(report);
  const failed = (report.expectations ?? []).filter((e) => !e.held).length;
  const tiles: [string, string, ReactNode, string?][] = [
    [
      t('{resource} in use', {resource: word(primary)}), share(cluster.utilisation[primary], locale),
      t('of {amount} on {n} {n|node|nodes}', {amount: amount(primary, cluster.capacity[primary], locale), n: cluster.nodes}),
    ],
    [t('Jobs completed'), decimal(cluster.jobs.completed, locale), t('{n} started', {n: decimal(cluster.jobs.started, locale)})],
    [t('Operations completed'), decimal(cluster.operations.completed, locale), t('of {n}', {n: decimal(cluster.operations.arrived, locale)})],
    [
      t('Wait per job (median)'), seconds(cluster.waits.p50, locale),
      t('99 %: {p99}, most: {max}', {p99: seconds(cluster.waits.p99, locale), max: seconds(cluster.waits.max, locale)}),
    ],
    [t('Preemptions'), decimal(cluster.jobs.preempted, locale), t('{n} {n|core-hour|core-hours} lost', {n: decimal((cluster.lost.cpu ?? 0) / 3600, locale, 1)})],
    ...(report.expectations
      ? ([[t('Expectations'), failed === 0 ? t('all hold') : t('{n} failed', {n: failed}), t('{n} checked', {n: report.expectations.length}), failed === 0 ? 'good' : 'danger']] as [string, string, ReactNode, string][])
      : []),
  ];
  return (
    <div className="tiles">
      {tiles.map(([title, value, note, tone]) => (
        <div key={title} className="tile">
          <span className="tile__title">{title}</span>
          <span className={`tile__value ${tone ?? ''}`}>{value}</span>
          <span className="tile__note">{note}</span>
        </div>
      ))}
    </div>
  );
}

function Expectations({report}: {report: SimulationReport}) {
  const {t} = useTexts();
  if (!report.expectations) return null;
  const list = [...report.expectations].sort((a, b) => Number(a.held) - Number(b.held));
  return (
    <Section title={t('Expectations')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Expectations')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Subject')}</th>
              <th>{t('What')}</th>
              <th>{t('Expected')}</th>
              <th>{t('Actual')}</th>
              <th>{t('Holds')}</th>
            </tr>
          </thead>
          <tbody>
            {list.map((e, i) => (
              <tr key={i}>
                <th scope="row">{e.subject}</th>
                <td>{e.figure}</td>
                <td>{e.want}</td>
                <td>{e.got}</td>
                <td>{e.held ? <span className="good">✓ {t('yes')}</span> : <span className="danger">✗ {t('no')}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function useTimes(report: SimulationReport): {times: number[]; printTime: (at: number) => string} {
  return useMemo(() => {
    const start = new Date(report.start).getTime() / 1000;
    const count = report.series.cluster.running_jobs.length;
    return report.dated
      ? {
        times: timesOf(report, count).map((at) => at + start),
        printTime: (at: number) => new Date(at * 1000).toISOString().slice(5, 16).replace('T', ' '),
      }
      : {times: timesOf(report, count), printTime: elapsed};
  }, [report]);
}

function ClusterCharts({report}: {report: SimulationReport}) {
  const {t, word, locale} = useTexts();
  const {times, printTime} = useTimes(report);
  const {cluster} = report.series;
  const use = useMemo<Line[]>(
    () =>
      usedResources(report).map((r, i) => ({
        label: word(r), color: palette[i % palette.length]!,
        values: (cluster.usage[r] ?? []).map((v, n) => ((cluster.capacity[r]?.[n] ?? 0) > 0 ? v / cluster.capacity[r]![n]! : 0)),
      })),
    [report, word],
  );
  const pools = useMemo<Line[]>(() => {
    const primary = primaryOf(report);
    return report.pools
      .map((pool, i) => ({pool, series: report.series.pools[i]!}))
      .filter(({pool}) => pool.depth === 1)
      .sort((a, b) => (b.pool.got[primary] ?? 0) - (a.pool.got[primary] ?? 0))
      .slice(0, palette.length)
      .map(({pool, series}, i) => ({label: pool.name, color: palette[i]!, values: series.usage[primary] ?? [], stacked: true}));
  }, [report]);
  const jobs = useMemo<Line[]>(
    () => [
      {label: t('Running jobs'), color: colors.usage, values: cluster.running_jobs},
      {label: t('Waiting jobs'), color: colors.demand, values: cluster.pending_jobs},
    ],
    [report, t],
  );
  const preemptions = useMemo<Line[]>(() => [{label: t('Preemptions'), color: colors.limit, values: cluster.preemptions, stacked: true}], [report, t]);
  const primary = primaryOf(report);
  const count = (v: number) => decimal(v, locale, 0);
  return (
    <div className="paircharts">
      <Section title={t('Fraction of the cluster in use')}>
        <Chart label={t('Fraction of the cluster in use')} times={times} lines={use} print={(v) => share(v, locale)} printTime={printTime} />
      </Section>
      <Section title={t('{resource}: usage of pools', {resource: word(primary)})}>
        <Chart label={t('{resource}: usage of pools', {resource: word(primary)})} times={times} lines={pools} print={(v) => amount(primary, v, locale)} printTime={printTime} />
      </Section>
      <Section title={t('Jobs')}>
        <Chart label={t('Jobs')} times={times} lines={jobs} print={count} printTime={printTime} />
      </Section>
      {report.cluster.jobs.preempted > 0 && (
        <Section title={t('Preemptions in {step}', {step: seconds(report.series.step, locale)})}>
          <Chart label={t('Preemptions')} times={times} lines={preemptions} print={count} printTime={printTime} stepped />
        </Section>
      )}
      <Waits report={report} />
    </div>
  );
}

/** Waits shows how long jobs waited. */
function Waits({report}: {report: SimulationReport}) {
  const {t, locale} = useTexts();
  const bars = report.cluster.wait_histogram ?? [];
  if (bars.length === 0) return null;
  const most = Math.max(...bars.map((bar) => bar.count));
  return (
    <Section title={t('Waiting times of jobs')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Waiting times of jobs')}>
        <table className="plain plain_bars">
          <tbody>
            {bars.map((bar) => (
              <tr key={bar.up_to}>
                <th scope="row">{t('up to {time}', {time: seconds(bar.up_to, locale)})}</th>
                <td className="plain__bar">
                  <span className="hbar" style={{width: `${(bar.count / most) * 100}%`}} />
                </td>
                <td className="numeric">{decimal(bar.count, locale)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function Pools({report}: {report: SimulationReport}) {
  const {t, word, locale} = useTexts();
  const primary = primaryOf(report);
  return (
    <Section title={t('Pools')} actions={<span className="muted">{t('averages of {resource} over the run', {resource: word(primary)})}</span>}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Pools')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Pool')}</th>
              <th className="numeric">{t('Demand')}</th>
              <th className="numeric">{t('Entitled')}</th>
              <th className="numeric">{t('Usage')}</th>
              <th className="numeric">{t('Wait, median')}</th>
              <th className="numeric">{t('Wait, 99 %')}</th>
              <th className="numeric">{t('Preempted')}</th>
              <th className="numeric">{t('Preempted others')}</th>
              <th className="numeric">{t('Guarantee kept')}</th>
              <th className="numeric">{t('Starved')}</th>
            </tr>
          </thead>
          <tbody>
            {report.pools.map((pool) => {
              const kept = keptOf(pool);
              const average = (of: 'asked' | 'entitled' | 'got') => amount(primary, averageOf(report, pool[of], primary), locale);
              return (
                <tr key={`${pool.tree}/${pool.name}`}>
                  <th scope="row" style={{paddingInlineStart: 12 + pool.depth * 18}}>{pool.name}</th>
                  <td className="numeric">{average('asked')}</td>
                  <td className="numeric">{average('entitled')}</td>
                  <td className="numeric">{average('got')}</td>
                  <td className="numeric">{pool.waits.count > 0 ? seconds(pool.waits.p50, locale) : '–'}</td>
                  <td className="numeric">{pool.waits.count > 0 ? seconds(pool.waits.p99, locale) : '–'}</td>
                  <td className="numeric">{decimal(pool.jobs.preempted, locale)}</td>
                  <td className="numeric">{decimal(pool.preemptions_caused, locale)}</td>
                  <td className="numeric">{kept === undefined ? '–' : <span className={kept < 0.9 ? 'danger' : undefined}>{share(kept, locale)}</span>}</td>
                  <td className="numeric">{seconds(pool.starving_seconds, locale)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function PoolCharts({report}: {report: SimulationReport}) {
  const {t, word, locale} = useTexts();
  const {times, printTime} = useTimes(report);
  const kinds = usedResources(report);
  const names = report.pools.map((pool) => pool.name);
  const first = report.pools.find((pool) => pool.integral)?.name ?? report.pools.find((pool) => pool.depth > 0)?.name ?? names[0] ?? '';
  const [chosen, setChosen] = useQueryValue('pool', first);
  const [kind, setKind] = useQueryValue('resource', kinds[0]);
  const resource = (kinds.find((r) => r === kind) ?? kinds[0]) as Resource;
  const index = Math.max(0, names.indexOf(chosen));
  const series = report.series.pools[index];
  const lines = useMemo<Line[]>(() => {
    if (!series) return [];
    const all: [string, string, number[] | undefined, boolean?][] = [
      [t('Usage'), colors.usage, series.usage[resource]],
      [t('Demand'), colors.demand, series.demand[resource]],
      [t('Fair share'), colors.strong, series.fair_share[resource], true],
      [t('Guaranteed'), colors.integral, series.guaranteed[resource], true],
    ];
    return all.flatMap(([label, color, values, dashed]) => (values ? [{label, color, values, dashed}] : []));
  }, [series, resource, t]);
  // Volumes are in seconds of the whole tree.
  const capacity = (report.cluster.capacity.cpu ?? 0) / 3600;
  const saved = useMemo<Line[]>(
    () => (series?.volume ? [{label: t('Accumulated'), color: colors.volume, values: series.volume.map((v) => v * capacity), stacked: true}] : []),
    [series, capacity, t],
  );
  return (
    <Section
      title={t('A pool over time')}
      actions={
        <>
          <Select
            label={t('Pool')} title={t('Pool')} filterable={names.length > 10} value={[names[index] ?? '']} onUpdate={([value]) => value && setChosen(value)}
            options={names.map((name) => ({value: name, content: name}))}
          />
          {kinds.length > 1 && (
            <SegmentedRadioGroup value={resource} onUpdate={setKind} aria-label={t('Resource')} options={kinds.map((r) => ({value: r as string, content: word(r)}))} />
          )}
        </>
      }
    >
      <div className={saved.length > 0 ? 'paircharts' : undefined}>
        <Chart label={t('A pool over time')} times={times} lines={lines} print={(v) => amount(resource, v, locale)} printTime={printTime} />
        {saved.length > 0 && (
          <Chart label={t('Accumulated volume over time')} times={times} lines={saved} print={(v) => `${decimal(v, locale)} ${t('CPU·h')}`} printTime={printTime} />
        )}
      </div>
    </Section>
  );
}

function Operations({report}: {report: SimulationReport}) {
  const {t, locale} = useTexts();
  const columns = useMemo<Column<SimulatedOperation>[]>(
    () => [
      {key: 'name', title: t('Operation'), width: 220, grow: true, value: (o) => o.name, render: (o) => <span title={o.name}>{o.name}</span>},
      {key: 'pool', title: t('Pool'), width: 150, value: (o) => o.pool, render: (o) => o.pool},
      {key: 'state', title: t('State'), width: 120, value: (o) => o.state, render: (o) => <State name={o.state} />},
      {key: 'arrived', title: t('Arrived'), width: 100, numeric: true, value: (o) => o.arrived, render: (o) => elapsed(o.arrived)},
      {key: 'waited', title: t('Waited'), width: 110, numeric: true, value: (o) => waitOf(report, o), render: (o) => seconds(waitOf(report, o), locale)},
      {key: 'finished', title: t('Finished'), width: 110, numeric: true, value: (o) => o.finished, render: (o) => (o.finished >= 0 ? elapsed(o.finished) : '–')},
      {
        key: 'jobs', title: t('Jobs'), width: 120, numeric: true, value: (o) => o.jobs.completed,
        render: (o) => (o.job_count > 0 ? `${decimal(o.jobs.completed, locale)} / ${decimal(o.job_count, locale)}` : decimal(o.jobs.completed, locale)),
      },
      {key: 'preempted', title: t('Preempted'), width: 110, numeric: true, value: (o) => o.jobs.preempted, render: (o) => decimal(o.jobs.preempted, locale)},
    ],
    [report, t, locale],
  );
  const longest = useMemo(() => [...report.operations].sort((a, b) => waitOf(report, b) - waitOf(report, a) || a.arrived - b.arrived), [report]);
  const rows = useSorted(longest, columns, 'sort');
  return (
    <Section
      title={t('Operations')}
      actions={report.operations_omitted ? <span className="muted">{t('{n} more {n|is|are} not listed', {n: report.operations_omitted})}</span> : undefined}
    >
      <Grid label={t('Operations')} columns={columns} rows={rows} rowKey={(o) => o.name} sort="sort" empty={t('No operations')} />
    </Section>
  );
}

function Work({report}: {report: SimulationReport}) {
  const {t, word, locale} = useTexts();
  const {work, starts_by_stage: starts = [], stops_by_reason: stops = []} = report.cluster;
  const rows: [string, number][] = [
    [t('Heartbeats'), work.heartbeats],
    [t('Fair-share updates'), work.updates],
    [t('Decisions'), work.decisions],
    ...starts.map(({name, count}): [string, number] => [t('Jobs started: {stage}', {stage: word(name)}), count]),
    ...stops.map(({name, count}): [string, number] => [t('Jobs stopped: {reason}', {reason: word(name)}), count]),
  ];
  return (
    <Section title={t('Scheduler activity')}>
      <table className="plain plain_narrow">
        <tbody>
          {rows.map(([name, count]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="numeric">{decimal(count, locale)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
