import {SegmentedRadioGroup, Select, TextInput} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {live, orchid, useCommand, useGet} from '../api/queries';
import {type Node, type NodeJobs, type Resource, resources} from '../api/types';
import {amount} from '../model/format';
import {Anchor} from '../parts/anchor';
import {Meter, PartsBar} from '../parts/bars';
import {Export} from '../parts/export';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Moment, State} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {navigate, to, useQueryValue} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';

interface Nodes {
  nodes: Node[];
  total: number;
}

export function NodesPage() {
  const {t, word} = useTexts();
  const [view, setView] = useQueryValue('view', 'list');
  const [filter, setFilter] = useQueryValue('filter');
  const [state, setState] = useQueryValue('state');
  const nodes = useCommand<Nodes>('list_nodes', {filter: filter || undefined, state: state || undefined}, {every: live});
  return (
    <div className="page page_full">
      <h1 className="page__title">{t('Nodes')}</h1>
      <div className="toolbar">
        <SegmentedRadioGroup
          value={view} onUpdate={setView} aria-label={t('View')}
          options={[{value: 'list', content: t('List')}, {value: 'map', content: t('Packing map')}]}
        />
        <TextInput className="toolbar__filter" value={filter} onUpdate={setFilter} hasClear placeholder={t('Node')} controlProps={{'aria-label': t('Filter by name')}} />
        <Select
          label={t('State')} title={t('State')} value={state ? [state] : []} placeholder={t('any')} hasClear
          options={['online', 'offline', 'banned', 'refused'].map((value) => ({value, content: word(value)}))}
          onUpdate={([value]) => setState(value ?? '')}
        />
        {nodes.data && <span className="muted toolbar__count">{t('{n} {n|node|nodes}', {n: nodes.data.total})}</span>}
      </div>
      <Loaded of={nodes}>{(data) => (view === 'map' ? <PackingMap nodes={data.nodes} /> : <NodesTable nodes={data.nodes} />)}</Loaded>
    </div>
  );
}

function columnsOf({t, word, locale}: Texts, shown: Resource[]): Column<Node>[] {
  return [
    {key: 'address', title: t('Node'), width: 150, grow: true, value: (n) => n.address, render: (n) => <Anchor href={to.node(n.address)}>{n.address}</Anchor>},
    {
      key: 'state', title: t('State'), width: 124, value: (n) => n.state,
      render: (n) => (
        <span className="labels">
          <State name={n.state} />
          {n.draining && <State name="draining" />}
          {n.jobs_disabled && <State name="jobs_disabled" />}
        </span>
      ),
    },
    {key: 'tree', title: t('Tree'), width: 92, value: (n) => n.pool_tree, render: (n) => n.pool_tree ?? '–'},
    {key: 'jobs', title: t('Jobs'), width: 60, numeric: true, value: (n) => n.running_job_count, render: (n) => n.running_job_count},
    ...shown.map((r): Column<Node> => ({
      key: r, title: word(r), width: 134, value: (n) => (n.resource_usage[r] ?? 0) / Math.max(1e-9, n.resource_limits[r] ?? 0),
      render: (n) => {
        const text = `${amount(r, n.resource_usage[r], locale)} / ${amount(r, n.resource_limits[r], locale)}`;
        return (
          <span className="stackedbar">
            <span className="nowrap">{text}</span>
            <Meter value={n.resource_usage[r] ?? 0} of={n.resource_limits[r] ?? 0} label={`${word(r)} ${text}`} />
          </span>
        );
      },
    })),
    {key: 'tags', title: t('Tags'), width: 120, value: (n) => n.tags.join(' '), render: (n) => <span title={n.tags.join(', ')}>{n.tags.join(', ')}</span>},
    {key: 'seen', title: t('Last seen'), width: 100, value: (n) => n.last_seen_time, render: (n) => <Moment at={n.last_seen_time} />},
  ];
}

/** usedResources returns the resources that some node has. */
function usedResources(nodes: Node[]): Resource[] {
  return resources.filter((r) => r !== 'network' && nodes.some((n) => (n.resource_limits[r] ?? 0) > 0));
}

function NodesTable({nodes}: {nodes: Node[]}) {
  const texts = useTexts();
  const shown = usedResources(nodes).join(' ');
  const columns = useMemo(() => columnsOf(texts, shown.split(' ').filter(Boolean) as Resource[]), [texts, shown]);
  const rows = useSorted(nodes, columns, 'sort');
  return (
    <>
      <div className="grid__tools">
        <Export name="nodes" columns={columns} rows={rows} />
      </div>
      <Grid label={texts.t('Nodes')} columns={columns} rows={rows} rowKey={(n) => n.address} rowHeight={44} sort="sort" tall empty={texts.t('No nodes')} />
    </>
  );
}

type Running = Record<string, {running_job_statistics?: NodeJobs}>;

export const classes = ['non_preemptible', 'aggressively_preemptible', 'preemptible'] as const;

/** PackingMap shows how full each node is, and the classes of its jobs. */
function PackingMap({nodes}: {nodes: Node[]}) {
  const {t, word, locale} = useTexts();
  const [chosen, setChosen] = useQueryValue('resource', 'cpu');
  const running = useGet<Running>(`${orchid}/nodes`, {}, {every: live, large: true});
  const r = (resources.find((one) => one === chosen) ?? 'cpu') as Resource;
  if (nodes.length === 0) return <Empty>{t('No nodes')}</Empty>;
  return (
    <>
      <div className="toolbar">
        <SegmentedRadioGroup
          value={r} onUpdate={setChosen} aria-label={t('Resource')}
          options={usedResources(nodes).map((one) => ({value: one as string, content: word(one)}))}
        />
        <p className="legend">
          {classes.map((name) => (
            <span key={name}>
              <i className={`dot dot_${name}`} /> {word(name)}{' '}
            </span>
          ))}
          <i className="dot dot_free" /> {t('free')}
        </p>
      </div>
      <div className="packing">
        {nodes.slice(0, 2000).map((node) => {
          const jobs = running.data?.[node.address]?.running_job_statistics;
          const whole = node.resource_limits[r] ?? 0;
          const parts = classes.map((name) => ({
            kind: name, value: jobs?.[`${name}_resource_usage`]?.[r] ?? 0,
            title: `${word(name)}: ${amount(r, jobs?.[`${name}_resource_usage`]?.[r], locale)}`,
          }));
          const label = `${node.address}: ${amount(r, node.resource_usage[r], locale)} / ${amount(r, whole, locale)} ${word(r)}`;
          return (
            <button
              key={node.address} type="button" className={`packing__node${node.state === 'online' ? '' : ' packing__node_off'}`}
              onClick={() => navigate(to.node(node.address))} title={label}
            >
              <span className="packing__name">{node.address}</span>
              <PartsBar parts={parts} whole={whole} label={label} />
              <span className="packing__note">
                {amount(r, node.resource_usage[r], locale)} / {amount(r, whole, locale)}
              </span>
            </button>
          );
        })}
      </div>
    </>
  );
}
