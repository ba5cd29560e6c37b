import {Select, TextInput} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {live, useCommand} from '../api/queries';
import type {Pod, PodList} from '../api/types';
import {Anchor} from '../parts/anchor';
import {Export} from '../parts/export';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Moment, State} from '../parts/small';
import {Loaded} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';

const states = ['waiting', 'starting', 'running', 'leaving', 'completed', 'failed'];

/** PodsPage lists the pods of Kubernetes that Weir schedules, with their namespaces. */
export function PodsPage() {
  const {t, word} = useTexts();
  const [namespace, setNamespace] = useQueryValue('namespace');
  const [filter, setFilter] = useQueryValue('filter');
  const [state, setState] = useQueryValue('state');
  const everywhere = useCommand<PodList>('list_pods', {limit: 0}, {every: live});
  const pods = useCommand<PodList>('list_pods', {namespace: namespace || undefined, filter: filter || undefined, state: state || undefined}, {every: live});
  const namespaces = Object.entries(everywhere.data?.namespaces ?? {});
  return (
    <div className="page page_full">
      <h1 className="page__title">{t('Pods')}</h1>
      <div className="toolbar">
        <Select
          label={t('Namespace')} title={t('Namespace')} value={namespace ? [namespace] : []} placeholder={t('any')} hasClear
          options={namespaces.map(([name, n]) => ({value: name, content: t('{name}: {n} {n|pod|pods}, {waiting} waiting', {name, n: n.all, waiting: n.waiting})}))}
          onUpdate={([value]) => setNamespace(value ?? '')}
        />
        <TextInput className="toolbar__filter" value={filter} onUpdate={setFilter} hasClear placeholder={t('Pod')} controlProps={{'aria-label': t('Filter by name')}} />
        <Select
          label={t('State')} title={t('State')} value={state ? [state] : []} placeholder={t('any')} hasClear
          options={states.map((value) => ({value, content: word(value)}))}
          onUpdate={([value]) => setState(value ?? '')}
        />
        {pods.data && <span className="muted toolbar__count">{t('{n} {n|pod|pods}', {n: pods.data.total})}</span>}
      </div>
      <Loaded of={pods}>{(data) => <PodsTable pods={data.pods} />}</Loaded>
    </div>
  );
}

function columnsOf({t}: Texts): Column<Pod>[] {
  return [
    {key: 'namespace', title: t('Namespace'), width: 130, value: (p) => p.namespace, render: (p) => p.namespace},
    {key: 'name', title: t('Pod'), width: 180, grow: true, value: (p) => p.name, render: (p) => <Anchor href={to.pod(p.namespace, p.name)}>{p.name}</Anchor>},
    {key: 'state', title: t('State'), width: 110, value: (p) => p.state, render: (p) => <State name={p.state} />},
    {key: 'reason', title: t('Why it waits'), width: 240, value: (p) => p.reason, render: (p) => <span title={p.message}>{p.reason || '–'}</span>},
    {key: 'pool', title: t('Pool'), width: 120, value: (p) => p.pool, render: (p) => p.pool || '–'},
    {
      key: 'operation', title: t('Operation'), width: 200, value: (p) => p.alias,
      render: (p) => (p.operation_id ? <Anchor href={to.operation(p.operation_id)}>{p.alias}</Anchor> : p.alias || '–'),
    },
    {key: 'node', title: t('Node'), width: 150, value: (p) => p.node, render: (p) => (p.node ? <Anchor href={to.node(p.node)}>{p.node}</Anchor> : '–')},
    {key: 'created', title: t('Created'), width: 100, value: (p) => p.creation_time, render: (p) => <Moment at={p.creation_time} />},
  ];
}

function PodsTable({pods}: {pods: Pod[]}) {
  const texts = useTexts();
  const columns = useMemo(() => columnsOf(texts), [texts]);
  const rows = useSorted(pods, columns, 'sort');
  return (
    <>
      <div className="grid__tools">
        <Export name="pods" columns={columns} rows={rows} />
      </div>
      <Grid
        label={texts.t('Pods')} columns={columns} rows={rows} rowKey={(p) => `${p.namespace}/${p.name}`} rowHeight={36} sort="sort" tall
        empty={texts.t('No pods that Weir schedules')}
      />
    </>
  );
}
