import {Select, TextInput} from '@gravity-ui/uikit';

import {live, useCommand} from '../api/queries';
import type {Event} from '../api/types';
import {Loaded} from '../parts/states';
import {useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {EventsTable} from './events_table';

const types = [
  'job_started', 'job_completed', 'job_failed', 'job_aborted', 'job_preempted', 'operation_running', 'operation_completed', 'operation_failed',
  'operation_aborted', 'node_registered', 'scheduler_started', 'scheduler_revived',
];

export function EventsPage() {
  const {t, word} = useTexts();
  const [type, setType] = useQueryValue('type');
  const [pool, setPool] = useQueryValue('pool');
  const [node, setNode] = useQueryValue('node');
  const events = useCommand<{events: Event[]}>(
    'list_events', {limit: 500, types: type ? [type] : undefined, pool: pool || undefined, node: node || undefined}, {every: live},
  );
  const tools = (
    <>
      <Select
        label={t('Event')} title={t('Event')} value={type ? [type] : []} placeholder={t('any')} hasClear filterable
        options={types.map((value) => ({value, content: word(value)}))} onUpdate={([value]) => setType(value ?? '')}
      />
      <TextInput className="toolbar__filter" value={pool} onUpdate={setPool} hasClear placeholder={t('Pool')} controlProps={{'aria-label': t('Pool')}} />
      <TextInput className="toolbar__filter" value={node} onUpdate={setNode} hasClear placeholder={t('Node')} controlProps={{'aria-label': t('Node')}} />
    </>
  );
  return (
    <div className="page page_full">
      <h1 className="page__title">{t('Events')}</h1>
      {!events.data && <div className="grid__tools">{tools}</div>}
      <Loaded of={events}>{(data) => <EventsTable events={data.events} name="events" tall tools={tools} />}</Loaded>
    </div>
  );
}
