import {TextInput} from '@gravity-ui/uikit';
import {useMemo} from 'react';

import {live, useCommand} from '../api/queries';
import type {Amounts, Event} from '../api/types';
import {decimal, duration, shortId} from '../model/format';
import {Anchor} from '../parts/anchor';
import {Export} from '../parts/export';
import {type Column, Grid} from '../parts/grid';
import {Moment, Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {resourcesText} from './events_table';

export function usePreemptions(limit: number, pool?: string) {
  return useCommand<{events: Event[]; incomplete: boolean}>('list_events', {types: ['job_preempted'], limit, pool}, {every: live});
}

export function PreemptionsPage() {
  const {t} = useTexts();
  const [pool, setPool] = useQueryValue('pool');
  const events = usePreemptions(1000, pool || undefined);
  return (
    <div className="page page_full">
      <h1 className="page__title">{t('Preemptions')}</h1>
      <div className="toolbar">
        <TextInput
          className="toolbar__filter" value={pool} onUpdate={setPool} hasClear placeholder={t('Preempted pool')}
          controlProps={{'aria-label': t('Preempted pool')}}
        />
      </div>
      <Loaded of={events}>
        {(data) =>
          data.events.length === 0 ? (
            <Empty>{t('No preemptions')}</Empty>
          ) : (
            <>
              <Losses events={data.events} />
              <PreemptionsTable events={data.events} tall />
            </>
          )
        }
      </Loaded>
    </div>
  );
}

/** lostCoreSeconds returns the work lost with a job. */
function lostCoreSeconds(event: Event): number {
  return (((event['resources'] as Amounts | undefined)?.cpu ?? 0) * ((event['ran_ms'] as number | undefined) ?? 0)) / 1000;
}

/** Losses sums up the losses by pool. */
function Losses({events}: {events: Event[]}) {
  const {t, locale} = useTexts();
  const rows = useMemo(() => {
    const sums = new Map<string, {from: string; to: string; pool: boolean; tree: string; jobs: number; lost: number}>();
    for (const event of events) {
      const winner = String(event['preempted_for_pool'] ?? event['limiter'] ?? '–');
      const key = `${event.pool}\n${winner}`;
      const sum = sums.get(key) ?? {from: event.pool ?? '–', to: winner, pool: Boolean(event['preempted_for_pool']), tree: event.pool_tree ?? '', jobs: 0, lost: 0};
      sum.jobs++;
      sum.lost += lostCoreSeconds(event);
      sums.set(key, sum);
    }
    return [...sums.values()].sort((a, b) => b.lost - a.lost || (a.from < b.from ? -1 : 1));
  }, [events]);
  return (
    <Section title={t('Preemptions between pools')}>
      <table className="plain plain_narrow">
        <thead>
          <tr>
            <th>{t('From pool')}</th>
            <th>{t('For pool')}</th>
            <th className="numeric">{t('Jobs')}</th>
            <th className="numeric">{t('Core-seconds lost')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.from} ${row.to}`}>
              <td>
                <Anchor href={to.pool(row.tree, row.from)}>{row.from}</Anchor>
              </td>
              <td>{row.pool ? <Anchor href={to.pool(row.tree, row.to)}>{row.to}</Anchor> : row.to}</td>
              <td className="numeric">{row.jobs}</td>
              <td className="numeric">{decimal(row.lost, locale, 1)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

interface PreemptionsProps {
  events: Event[];
  tall?: boolean;
  /** brief tables show only which operation lost to which, and why. */
  brief?: boolean;
}

const briefly = ['time', 'lost', 'won', 'why', 'ran'];

export function PreemptionsTable({events, tall, brief}: PreemptionsProps) {
  const texts = useTexts();
  const {t, word, locale} = texts;
  const all = useMemo<Column<Event>[]>(
    () => [
      {key: 'time', title: t('Time'), width: 80, value: (e) => e.timestamp, render: (e) => <Moment at={e.timestamp} />},
      {
        key: 'lost', title: t('From pool'), width: 110, value: (e) => e.pool,
        render: (e) => e.pool && <Anchor href={to.pool(e.pool_tree ?? '', e.pool)}>{e.pool}</Anchor>,
      },
      {
        key: 'operation', title: t('Operation'), width: 150, value: (e) => e.operation_id,
        render: (e) => e.operation_id && <Anchor href={to.operation(e.operation_id)}>{shortId(e.operation_id)}</Anchor>,
      },
      {
        key: 'what', title: t('What'), width: 140, grow: true, value: (e) => resourcesText(e['resources'] as Amounts, texts),
        render: (e) => <span title={resourcesText(e['resources'] as Amounts, texts)}>{resourcesText(e['resources'] as Amounts, texts)}</span>,
      },
      {
        key: 'won', title: t('For pool'), width: 100, value: (e) => String(e['preempted_for_pool'] ?? ''),
        render: (e) => (e['preempted_for_pool'] ? <Anchor href={to.pool(e.pool_tree ?? '', String(e['preempted_for_pool']))}>{String(e['preempted_for_pool'])}</Anchor> : '–'),
      },
      {
        key: 'for', title: t('For operation'), width: 150, value: (e) => String(e['preempted_for'] ?? ''),
        render: (e) => (e['preempted_for'] ? <Anchor href={to.operation(String(e['preempted_for']))}>{shortId(String(e['preempted_for']))}</Anchor> : '–'),
      },
      {
        key: 'why', title: t('Why'), width: 130, value: (e) => String(e['reason'] ?? ''),
        render: (e) => <span title={word(String(e['class'] ?? ''))}>{e['reason'] === 'preemption' ? t('another operation starved') : word(String(e['reason'] ?? ''))}</span>,
      },
      {
        key: 'ran', title: t('Ran for'), width: 86, numeric: true, value: (e) => e['ran_ms'] as number,
        render: (e) => duration(e['ran_ms'] as number | undefined, locale),
      },
      {
        key: 'node', title: t('Node'), width: 90, value: (e) => e.node, render: (e) => e.node && <Anchor href={to.node(e.node)}>{e.node}</Anchor>,
      },
    ],
    [texts, t, word, locale],
  );
  const columns = brief ? all.filter((column) => briefly.includes(column.key)) : all;
  return (
    <>
      {!brief && (
        <div className="grid__tools">
          <Export name="preemptions" columns={columns} rows={events} />
        </div>
      )}
      <Grid label={t('Preemptions')} columns={columns} rows={events} rowKey={(e) => String(e.id)} tall={tall} empty={t('No preemptions')} />
    </>
  );
}
