import {Tab, TabList, TabPanel, TabProvider} from '@gravity-ui/uikit';
import {useState} from 'react';

import {escapeKey} from '../api/client';
import {live, orchid, useCommand, useGet} from '../api/queries';
import type {OperationList, Pool} from '../api/types';
import {amount, decimal, duration, share, volume} from '../model/format';
import {charge, pathTo, rootName} from '../model/tree';
import {Anchor} from '../parts/anchor';
import {Meter, ShareBar} from '../parts/bars';
import {Favourite} from '../parts/favourite';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Copyable, Facts, Section, State} from '../parts/small';
import {Loaded} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {isMissing, MissingPool} from './missing';
import {StartOperation} from './operation_start';
import {OperationsTable} from './operations_table';
import {PoolAcl} from './pool_acl';
import {CreatePool, DeletePool, MovePool, poolPath} from './pool_actions';
import {PoolChanges} from './pool_changes';
import {PoolCharts} from './pool_charts';
import {ShareDerivation} from './pool_derivation';
import {PoolEditor} from './pool_editor';
import {PoolWhyTab} from './pool_why';
import {PromisesTab} from './promises';
import {ResourceTable} from './resource_table';

export function PoolPage({tree, name}: {tree: string; name: string}) {
  const base = `${orchid}/pool_trees/${escapeKey(tree)}/pools`;
  const pool = useGet<Pool>(`${base}/${escapeKey(name)}`, {}, {every: live});
  const all = useGet<Record<string, Pool>>(base, {fields: ['parent', 'is_ephemeral']}, {every: 10_000, large: true});
  return (
    <div className="page">
      {!pool.data && isMissing(pool.error) ? (
        <MissingPool tree={tree} name={name} />
      ) : (
        <Loaded of={pool}>{(data) => <Whole tree={tree} name={name} pool={data} all={all.data ?? {}} />}</Loaded>
      )}
    </div>
  );
}

interface WholeProps {
  tree: string;
  name: string;
  pool: Pool;
  all: Record<string, Pool>;
}

function Whole({tree, name, pool, all}: WholeProps) {
  const {t} = useTexts();
  const [tab, setTab] = useQueryValue('tab', 'overview');
  const [dialog, setDialog] = useState<'create' | 'move' | 'delete' | 'share' | ''>('');
  const path = poolPath(tree, all, name);
  const close = () => setDialog('');
  const fixed = pool.is_ephemeral || name === rootName;
  const ephemeral = pool.is_ephemeral ? t('The scheduler makes and removes ephemeral pools itself') : '';
  const parent = path.slice(0, path.lastIndexOf('/'));
  const mayCreate = useRefusal(fixed && pool.is_ephemeral ? [] : [[['modify_children', path], ['write', path]]]);
  const mayUse = useRefusal(fixed ? [] : [[['use', path]]]);
  const mayMove = useRefusal(fixed ? [] : [[['write', path]], [['modify_children', parent], ['write', parent]]]);
  const mayDelete = useRefusal(fixed ? [] : [[['remove', path]], [['modify_children', parent], ['write', parent]]]);
  return (
    <>
      <Way tree={tree} name={name} all={all} />
      <div className="page__head">
        <h1 className="page__title">{name}</h1>
        {!fixed && <Favourite tree={tree} pool={name} />}
        <State name={pool.mode} />
        {pool.integral_guarantee_type !== 'none' && <State name={pool.integral_guarantee_type} />}
        {pool.starvation_status !== 'non_starving' && <State name={pool.starvation_status} />}
        {pool.is_ephemeral && <State name="ephemeral" />}
        <div className="page__actions">
          {name !== rootName && <StartOperation tree={tree} pool={name} refusal={mayUse} />}
          <GuardedButton refusal={ephemeral || mayCreate} onClick={() => setDialog('create')}>
            {t('Create a subpool')}
          </GuardedButton>
          {name !== rootName && (
            <>
              <GuardedButton refusal={ephemeral || mayMove} onClick={() => setDialog('move')}>
                {t('Move')}
              </GuardedButton>
              <GuardedButton refusal={ephemeral || mayDelete} view="outlined-danger" onClick={() => setDialog('delete')}>
                {t('Delete')}
              </GuardedButton>
            </>
          )}
        </div>
      </div>
      <TabProvider value={tab} onUpdate={setTab}>
        <TabList>
          <Tab value="overview">{t('Overview')}</Tab>
          <Tab value="why">{t('Why')}</Tab>
          <Tab value="charts">{t('Charts')}</Tab>
          <Tab value="operations">{t('Operations')}</Tab>
          {name !== rootName && <Tab value="promises">{t('Promises')}</Tab>}
          {!fixed && <Tab value="attributes">{t('Attributes')}</Tab>}
          {!fixed && <Tab value="acl">{t('Access')}</Tab>}
          <Tab value="changes">{t('Changes')}</Tab>
        </TabList>
        <div className="tabbody">
          <TabPanel value="overview">{tab === 'overview' && <Overview pool={pool} name={name} path={path} onDerive={() => setDialog('share')} />}</TabPanel>
          <TabPanel value="why">{tab === 'why' && <PoolWhyTab tree={tree} name={name} />}</TabPanel>
          <TabPanel value="charts">{tab === 'charts' && <PoolCharts tree={tree} name={name} pool={pool} />}</TabPanel>
          <TabPanel value="operations">{tab === 'operations' && <PoolOperations tree={tree} name={name} />}</TabPanel>
          <TabPanel value="promises">{tab === 'promises' && name !== rootName && <PromisesTab tree={tree} name={name} />}</TabPanel>
          <TabPanel value="attributes">
            {tab === 'attributes' && !fixed && <PoolEditor key={path} tree={tree} path={path} way={pathTo(all, name)} />}
          </TabPanel>
          <TabPanel value="acl">{tab === 'acl' && !fixed && <PoolAcl path={path} />}</TabPanel>
          <TabPanel value="changes">{tab === 'changes' && <PoolChanges tree={tree} name={name} path={path} />}</TabPanel>
        </div>
      </TabProvider>
      {dialog === 'share' && <ShareDerivation tree={tree} name={name} all={all} onClose={close} />}
      {dialog === 'create' && <CreatePool tree={tree} parent={name} onClose={close} />}
      {dialog === 'move' && <MovePool tree={tree} name={name} parent={pool.parent ?? rootName} onClose={close} />}
      {dialog === 'delete' && <DeletePool tree={tree} name={name} path={path} onClose={close} />}
    </>
  );
}

function Way({tree, name, all}: {tree: string; name: string; all: Record<string, Pool>}) {
  const {t} = useTexts();
  return (
    <nav className="way" aria-label={t('Position in the tree')}>
      <Anchor href={to.scheduling(tree)}>{tree}</Anchor>
      {pathTo(all, name)
        .slice(0, -1)
        .map((above) => (
          <span key={above}>
            <span className="muted"> / </span>
            <Anchor href={to.pool(tree, above)}>{above}</Anchor>
          </span>
        ))}
    </nav>
  );
}

function Overview({pool, name, path, onDerive}: {pool: Pool; name: string; path: string; onDerive: () => void}) {
  const {t, word, locale} = useTexts();
  const split = pool.detailed_dominant_fair_share;
  return (
    <>
      <Facts
        items={[
          [t('Path'), <Copyable key="path" text={path} />],
          [t('Weight'), decimal(pool.weight, locale)],
          [t('Mode'), word(pool.mode)],
          [t('Dominant'), word(pool.dominant_resource)],
          [t('Usage / fair share'), <ShareBar key="bar" usage={pool.usage_ratio} fair={pool.fair_share_ratio} />],
          [
            t('Fair share by cause'),
            <button key="share" type="button" className="link" title={t('Where the fair share comes from')} onClick={onDerive}>
              {t('{total} = {strong} strong + {integral} integral + {weight} by weight', {
                total: share(split.total, locale), strong: share(split.strong_guarantee, locale),
                integral: share(split.integral_guarantee, locale), weight: share(split.weight_proportional, locale),
              })}
            </button>,
          ],
          [t('Starvation'), word(pool.starvation_status)],
          [t('Running operations'), t('{n} of {m}', {n: pool.running_operation_count, m: pool.max_running_operation_count})],
          [t('All operations'), t('{n} of {m}', {n: pool.operation_count, m: pool.max_operation_count})],
          [t('Jobs'), t('{n} running, {m} pending', {n: pool.running_job_count, m: pool.pending_job_count})],
        ]}
      />
      <ResourceTable label={t('Resources of pool {name}', {name})} element={pool} />
      <Bucket pool={pool} />
    </>
  );
}

/** Bucket shows what a pool with an integral guarantee has saved. */
function Bucket({pool}: {pool: Pool}) {
  const {t, word, locale} = useTexts();
  const full = charge(pool);
  if (full === undefined) return null;
  const lasts = pool.estimated_burst_usage_duration_seconds;
  return (
    <Section title={t('Integral guarantee')}>
      <Facts
        items={[
          [t('Type'), word(pool.integral_guarantee_type)],
          [t('Flow'), `${amount('cpu', pool.specified_resource_flow?.cpu, locale)} CPU (${share(pool.specified_resource_flow_ratio, locale)})`],
          [t('Burst'), `${amount('cpu', pool.specified_burst_guarantee_resources?.cpu, locale)} CPU (${share(pool.specified_burst_ratio, locale)})`],
          [
            t('Volume / capacity'),
            <span key="charge" className="sharebar">
              <Meter value={full} of={1} label={t('accumulated {charge} of capacity', {charge: share(full, locale)})} kind="bucket" />
              <span className="sharebar__number">{share(full, locale)}</span>
            </span>,
          ],
          [
            t('Accumulated'),
            t('{n} of {m}', {
              n: volume('cpu', pool.accumulated_resource_volume?.cpu, locale), m: volume('cpu', pool.integral_pool_capacity?.cpu, locale),
            }),
          ],
          [t('Burst lasts'), lasts === undefined ? t('indefinitely') : duration(lasts * 1000, locale)],
        ]}
      />
    </Section>
  );
}

function PoolOperations({tree, name}: {tree: string; name: string}) {
  const {t} = useTexts();
  const list = useCommand<OperationList>('list_operations', {pool: name, pool_tree: tree, limit: 100}, {every: live});
  return (
    <Loaded of={list}>
      {(data) => (
        <>
          <OperationsTable rows={data.operations} name={`operations-${name}`} />
          {data.incomplete && <Anchor href={to.operations({pool: name, tree})}>{t('All operations of this pool')}</Anchor>}
        </>
      )}
    </Loaded>
  );
}
