import {Alert} from '@gravity-ui/uikit';

import {ApiError, reasons} from '../api/client';
import type {OperationDetails} from '../api/types';
import {bytes, decimal, duration, share} from '../model/format';
import {Anchor} from '../parts/anchor';
import {ShareBar} from '../parts/bars';
import {Facts, Moment, Section} from '../parts/small';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {JobsBar} from './operations_table';
import {ResourceTable} from './resource_table';

export function DetailsTab({operation}: {operation: OperationDetails}) {
  const {t, word, locale} = useTexts();
  const trees = Object.entries(operation.progress?.scheduling_info_per_pool_tree ?? {});
  const annotations = operation.runtime_parameters?.annotations ?? {};
  return (
    <>
      {Object.entries(operation.alerts ?? {}).map(([name, alert]) => (
        <Alert key={name} theme="warning" title={word(name)} message={reasons(new ApiError(alert)).join(': ')} />
      ))}
      {trees.map(([tree, info]) => (
        <Section key={tree} title={t('In tree {name}', {name: tree})}>
          <Facts
            items={[
              [t('Pool'), <Anchor key="pool" href={to.pool(tree, info.pool)}>{info.pool}</Anchor>],
              [t('Weight'), decimal(info.weight, locale)],
              ...(info.fifo_index === undefined || info.fifo_index === null ? [] : [[t('FIFO index'), String(info.fifo_index)] as [string, string]]),
              [t('Dominant'), word(info.dominant_resource)],
              [t('Usage / fair share'), <ShareBar key="bar" usage={info.usage_ratio} fair={info.fair_share_ratio} />],
              [t('Demand'), share(info.demand_ratio, locale)],
              [t('Scheduling'), word(info.scheduling_status)],
              [t('Starvation'), word(info.starvation_status)],
              ...(info.waiting_for_pool ? [[t('Waits for a place in'), info.waiting_for_pool] as [string, string]] : []),
            ]}
          />
          <ResourceTable label={t('Resources in tree {name}', {name: tree})} element={info} />
        </Section>
      ))}
      <Section title={t('Tasks')}>
        <div className="scroll" tabIndex={0} role="region" aria-label={t('Tasks')}>
          <table className="plain">
            <thead>
              <tr>
                <th>{t('Task')}</th>
                <th>{t('Jobs')}</th>
                <th className="numeric">{t('Pending')}</th>
                <th className="numeric">{t('Running')}</th>
                <th className="numeric">{t('Completed')}</th>
                <th className="numeric">{t('Failed')}</th>
                <th className="numeric">{t('Aborted')}</th>
                <th className="numeric">{t('Memory reserve')}</th>
              </tr>
            </thead>
            <tbody>
              {(operation.progress?.tasks ?? []).map(({task_name: name, job_counter: jobs}) => {
                const reserve = operation.progress?.memory_reserves?.[name];
                return (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td className="plain__bar">
                      <JobsBar jobs={jobs} />
                    </td>
                    <td className="numeric">{jobs.pending}</td>
                    <td className="numeric">{jobs.running}</td>
                    <td className="numeric">{jobs.completed.total}</td>
                    <td className="numeric">{jobs.failed}</td>
                    <td className="numeric">{jobs.aborted.total}</td>
                    <td className="numeric">{reserve ? `${bytes(reserve.user_job, locale)} (×${decimal(reserve.user_job_factor, locale)})` : '–'}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </Section>
      {Object.keys(annotations).length > 0 && (
        <Section title={t('Annotations')}>
          <Facts items={Object.entries(annotations).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)])} />
        </Section>
      )}
      <Section title={t('States')}>
        <States operation={operation} />
      </Section>
    </>
  );
}

/** States shows the states of an operation, and how long it was in each. */
function States({operation}: {operation: OperationDetails}) {
  const {t, word, locale} = useTexts();
  const events = operation.events ?? [];
  return (
    <table className="plain plain_narrow">
      <thead>
        <tr>
          <th>{t('State')}</th>
          <th>{t('Since')}</th>
          <th className="numeric">{t('Duration')}</th>
        </tr>
      </thead>
      <tbody>
        {events.map((event, i) => {
          const next = events[i + 1]?.time;
          return (
            <tr key={`${event.state}-${i}`}>
              <th scope="row">{word(event.state)}</th>
              <td><Moment at={event.time} /></td>
              <td className="numeric">{next ? duration(new Date(next).getTime() - new Date(event.time).getTime(), locale) : ''}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
