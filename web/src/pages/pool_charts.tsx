import {SegmentedRadioGroup} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {live, useCommand} from '../api/queries';
import {type History, type Pool, type Resource, resources} from '../api/types';
import {amount, decimal, duration, volume} from '../model/format';
import {frameOf} from '../model/history';
import {Chart, colors, type Line} from '../parts/chart';
import {Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';

const ranges: Record<string, number> = {'15m': 15 * 60, '1h': 3600, '6h': 6 * 3600, '1d': 86400, '7d': 7 * 86400};

/** rangeStart moves in steps, so that not every rendering requests the chart again. */
function rangeStart(seconds: number): string {
  const step = Math.max(1, Math.floor(seconds / 300));
  const now = Math.floor(Date.now() / 1000 / step) * step;
  return new Date((now - seconds) * 1000).toISOString();
}

export function PoolCharts({tree, name, pool}: {tree: string; name: string; pool: Pool}) {
  const {t, word, locale} = useTexts();
  const [range, setRange] = useQueryValue('range', '15m');
  const [resource, setResource] = useQueryValue('resource', 'cpu');
  const seconds = ranges[range] ?? 900;
  const history = useCommand<History>(
    'get_history', {pool_tree: tree, pool: name, max_points: 1000, ...(range === '15m' ? {} : {from_time: rangeStart(seconds)})},
    {every: range === '15m' ? live : 10_000},
  );
  const chosen = (resources.find((r) => r === resource) ?? 'cpu') as Resource;
  return (
    <>
      <div className="toolbar">
        <SegmentedRadioGroup
          value={chosen}
          onUpdate={setResource}
          aria-label={t('Resource')}
          options={resources.filter((r) => r === chosen || (pool.resource_limits?.[r] ?? 1) > 0).map((r) => ({value: r as string, content: word(r)}))}
        />
        <SegmentedRadioGroup
          value={range in ranges ? range : '15m'}
          onUpdate={setRange}
          aria-label={t('Time range')}
          options={Object.entries(ranges).map(([key, seconds]) => ({value: key, content: duration(seconds * 1000, locale)}))}
        />
      </div>
      <Loaded of={history} lines={8}>
        {(data) => (data.series.length === 0 ? <Empty>{t('No history yet')}</Empty> : <Charts data={data} resource={chosen} pool={pool} />)}
      </Loaded>
    </>
  );
}

function Charts({data, resource, pool}: {data: History; resource: Resource; pool: Pool}) {
  const {t, word, locale} = useTexts();
  const frame = useMemo(() => frameOf(data), [data]);
  const range: [number, number] = [new Date(data.from_time).getTime() / 1000, new Date(data.to_time).getTime() / 1000];
  const lines = (wanted: [string, string, string, Partial<Line>?, (Resource | null)?][]): Line[] =>
    wanted.flatMap(([name, label, color, more, of]) => {
      const values = frame.line(name, of === undefined ? resource : of);
      return values ? [{label, color, values, ...more}] : [];
    });
  const print = (value: number) => amount(resource, value, locale);
  const use = useMemo(
    () =>
      lines([
        ['usage', t('Usage'), colors.usage],
        ['demand', t('Demand'), colors.demand],
        ['strong_guarantee', t('Guarantee'), colors.guarantee, {dashed: true}],
        ['burst_guarantee', t('Burst'), colors.burst, {dashed: true}],
        ['resource_flow', t('Flow'), colors.flow, {dashed: true}],
        ['limit', t('Limit'), colors.limit, {dashed: true}],
      ]),
    [frame, resource, t],
  );
  const causes = useMemo(
    () =>
      lines([
        ['fair_share_strong', t('strong guarantee'), colors.strong, {stacked: true}],
        ['fair_share_integral', t('integral guarantee'), colors.integral, {stacked: true}],
        ['fair_share_weight', t('by weight'), colors.weight, {stacked: true}],
        ['usage', t('Usage'), colors.usage],
      ]),
    [frame, resource, t],
  );
  const capacity = data.series.find((s) => s.name === 'volume') ? pool.integral_pool_capacity?.cpu : undefined;
  const perShare = pool.integral_pool_capacity_ratio && capacity ? capacity / pool.integral_pool_capacity_ratio : undefined;
  const saved = useMemo(() => {
    const volumes = frame.line('volume', null);
    if (!volumes || perShare === undefined || capacity === undefined) return [];
    const values = volumes.map((v) => (v === null ? null : v * perShare));
    // Beside its capacity, a nearly empty bucket would be a line on the floor; the capacity is shown as text
    // above.
    const filled = Math.max(0, ...values.map((v) => v ?? 0)) >= capacity / 20;
    return [
      {label: t('Accumulated'), color: colors.volume, values, stacked: true},
      ...(filled ? [{label: t('Volume capacity'), color: colors.limit, values: values.map(() => capacity), dashed: true}] : []),
    ];
  }, [frame, perShare, capacity, t]);
  // The volume drains by the burst minus the flow.
  const drain = (pool.specified_burst_ratio ?? 0) - (pool.specified_resource_flow_ratio ?? 0);
  const endurance = useMemo(() => {
    const volumes = frame.line('volume', null);
    if (!volumes || drain <= 0) return [];
    return [{label: t('Burst would last'), color: colors.burst, values: volumes.map((v) => (v === null ? null : v / drain)), stacked: true}];
  }, [frame, drain, t]);
  const counts = useMemo(
    () =>
      lines([
        ['running_jobs', t('Running jobs'), colors.usage, {}, null],
        ['pending_jobs', t('Pending jobs'), colors.demand, {}, null],
        ['running_operations', t('Running operations'), colors.strong, {}, null],
        ['operations', t('All operations'), colors.weight, {dashed: true}, null],
      ]),
    [frame, t],
  );
  const lasts = pool.estimated_burst_usage_duration_seconds;
  return (
    <div className="charts">
      <Section title={t('{resource}: usage, demand, guarantees, limit', {resource: word(resource)})}>
        <Chart label={t('Usage and demand over time')} times={frame.times} range={range} lines={use} print={print} />
      </Section>
      <Section title={t('{resource}: fair share by cause', {resource: word(resource)})}>
        <Chart label={t('Fair share by cause over time')} times={frame.times} range={range} lines={causes} print={print} />
      </Section>
      {saved.length > 0 && (
        <Section
          title={t('Accumulated volume, CPU × hours')}
          actions={
            <span className="muted">
              {t('capacity {capacity}; the full burst would last {lasts}', {
                capacity: volume('cpu', capacity, locale), lasts: lasts === undefined ? '∞' : duration(lasts * 1000, locale),
              })}
            </span>
          }
        >
          <Chart label={t('Accumulated volume over time')} times={frame.times} range={range} lines={saved} print={(v) => volume('cpu', v, locale)} />
        </Section>
      )}
      {endurance.length > 0 && (
        <Section title={t('How long the full burst would last')}>
          <Chart
            label={t('How long the full burst would last')} times={frame.times} range={range} lines={endurance} print={(v) => duration(v * 1000, locale)} height={180}
          />
        </Section>
      )}
      <Section title={t('Operations and jobs')}>
        <Chart label={t('Counts over time')} times={frame.times} range={range} lines={counts} print={(v) => decimal(v, locale, 0)} height={180} />
      </Section>
    </div>
  );
}
