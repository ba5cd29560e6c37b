import {Button, Checkbox, Select, TextInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {live, useCommand} from '../api/queries';
import type {OperationList} from '../api/types';
import {Loaded} from '../parts/states';
import {setQuery, useQueryString, useQueryValue} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {StartOperation} from './operation_start';
import {OperationsTable} from './operations_table';

const page = 100;

export function OperationsPage() {
  const {t} = useTexts();
  const query = useQueryString();
  const [limit, setLimit] = useState(page);
  const value = (key: string) => query.get(key) || undefined;
  const parameters = {
    filter: value('text'), state: value('state'), user: value('user'), pool: value('pool'), pool_tree: value('tree'),
    with_failed_jobs: value('failed') ? true : undefined, to_time: value('before'), limit, include_counters: true,
  };
  const list = useCommand<OperationList>('list_operations', parameters, {every: live});
  return (
    <div className="page page_full">
      <div className="page__head">
        <h1 className="page__title">{t('Operations')}</h1>
        <div className="page__actions">
          <StartOperation />
        </div>
      </div>
      {!list.data && <Filters counts={undefined} />}
      <Loaded of={list} lines={8}>
        {(data) => (
          <>
            <OperationsTable rows={data.operations} name="operations" tall tools={<Filters counts={data} />} />
            {data.incomplete && limit < 1000 && (
              <Button view="outlined" onClick={() => setLimit(limit + page)}>
                {t('Show more')}
              </Button>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Filters({counts}: {counts: OperationList | undefined}) {
  const {t} = useTexts();
  const [text, setText] = useQueryValue('text');
  const [failed, setFailed] = useQueryValue('failed');
  const [before, setBefore] = useQueryValue('before');
  return (
    <>
      <TextInput
        className="toolbar__filter" value={text} onUpdate={setText} hasClear placeholder={t('Title, id or user')}
        controlProps={{'aria-label': t('Filter by text')}}
      />
      <CountedFilter name="state" title="State" counts={counts?.state_counts} translated />
      <CountedFilter name="pool" title="Pool" counts={counts?.pool_counts} />
      <CountedFilter name="tree" title="Tree" counts={counts?.pool_tree_counts} />
      <CountedFilter name="user" title="User" counts={counts?.user_counts} />
      <Checkbox checked={failed !== ''} onUpdate={(on) => setFailed(on ? 'yes' : '')}>
        {t('With failed jobs')} {counts?.failed_jobs_count !== undefined && <span className="muted">{counts.failed_jobs_count}</span>}
      </Checkbox>
      <label className="field">
        <span>{t('Started before')}</span>
        <input
          type="datetime-local"
          className="field__input"
          value={before ? localTime(before) : ''}
          onChange={(event) => setBefore(event.target.value ? new Date(event.target.value).toISOString() : '')}
        />
      </label>
      <Button view="flat" onClick={() => setQuery({text: '', state: '', pool: '', tree: '', user: '', failed: '', before: '', sort: ''})}>
        {t('Clear')}
      </Button>
    </>
  );
}

/** localTime formats an instant for an input element. */
function localTime(instant: string): string {
  const at = new Date(instant);
  return Number.isNaN(at.getTime()) ? '' : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

interface CountedProps {
  name: string;
  title: Key;
  counts: Record<string, number> | undefined;
  translated?: boolean;
}

/** CountedFilter selects one value and shows how many operations have it. */
function CountedFilter({name, title, counts = {}, translated}: CountedProps) {
  const {t, word} = useTexts();
  const [value, setValue] = useQueryValue(name);
  const values = Object.keys(counts);
  if (value && !values.includes(value)) values.unshift(value);
  return (
    <Select
      label={t(title)} title={t(title)}
      value={value ? [value] : []}
      placeholder={t('any')}
      hasClear
      filterable={values.length > 10}
      options={values.map((key) => ({
        value: key, text: key,
        content: (
          <span className="option">
            {translated ? word(key) : key} <span className="muted">{counts[key] ?? 0}</span>
          </span>
        ),
      }))}
      renderSelectedOption={(option) => <span>{translated ? word(option.value) : option.value}</span>}
      onUpdate={([chosen]) => setValue(chosen ?? '')}
    />
  );
}
