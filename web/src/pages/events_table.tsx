import {type ReactNode, useMemo} from 'react';

import {type Amounts, type Event, resources} from '../api/types';
import {amount, duration, shortId} from '../model/format';
import {Anchor} from '../parts/anchor';
import {type Column, Grid} from '../parts/grid';
import {Export} from '../parts/export';
import {Moment} from '../parts/small';
import {to} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';

/** resourcesText formats the non-zero amounts of a vector. */
export function resourcesText(amounts: Amounts | undefined, {word, locale}: Texts): string {
  return resources
    .filter((r) => (amounts?.[r] ?? 0) > 0)
    .map((r) => `${amount(r, amounts?.[r], locale)} ${word(r)}`)
    .join(', ');
}

const known = new Set(['id', 'timestamp', 'event_type', 'operation_id', 'job_id', 'pool_tree', 'pool', 'node']);

/** detailsOf formats the other fields of an event. */
function detailsOf(event: Event, texts: Texts): string {
  const parts: string[] = [];
  for (const [key, value] of Object.entries(event)) {
    if (known.has(key) || value === null || value === '') continue;
    if (key === 'resources') parts.push(resourcesText(value as Amounts, texts));
    else if (key.endsWith('_ms')) parts.push(`${texts.word(key.slice(0, -3))} ${duration(value as number, texts.locale)}`);
    else if (key === 'error') parts.push((value as {message?: string}).message ?? '');
    else parts.push(`${texts.word(key)} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  }
  return parts.filter(Boolean).join(' · ');
}

export function EventsTable({events, tall, name, tools}: {events: Event[]; tall?: boolean; name: string; tools?: ReactNode}) {
  const texts = useTexts();
  const {t, word, locale} = texts;
  const columns = useMemo<Column<Event>[]>(
    () => [
      {key: 'time', title: t('Time'), width: 140, value: (e) => e.timestamp, render: (e) => <Moment at={e.timestamp} />},
      {key: 'event', title: t('Event'), width: 190, value: (e) => e.event_type, render: (e) => word(e.event_type)},
      {
        key: 'operation', title: t('Operation'), width: 170, value: (e) => e.operation_id,
        render: (e) => e.operation_id && <Anchor href={to.operation(e.operation_id)}>{shortId(e.operation_id)}</Anchor>,
      },
      {
        key: 'pool', title: t('Pool'), width: 140, value: (e) => e.pool,
        render: (e) => e.pool && e.pool_tree && <Anchor href={to.pool(e.pool_tree, e.pool)}>{e.pool}</Anchor>,
      },
      {
        key: 'node', title: t('Node'), width: 130, value: (e) => e.node, render: (e) => e.node && <Anchor href={to.node(e.node)}>{e.node}</Anchor>,
      },
      {
        key: 'details', title: t('Details'), width: 320, grow: true, value: (e) => detailsOf(e, texts),
        render: (e) => <span title={detailsOf(e, texts)}>{detailsOf(e, texts)}</span>,
      },
    ],
    [texts, t, word, locale],
  );
  return (
    <>
      <div className="grid__tools">
        {tools}
        <Export name={name} columns={columns} rows={events} />
      </div>
      <Grid label={t('Events')} columns={columns} rows={events} rowKey={(e) => String(e.id)} tall={tall} empty={t('No events')} />
    </>
  );
}
