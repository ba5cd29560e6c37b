import {Tab, TabList, TabPanel, TabProvider} from '@gravity-ui/uikit';
import {type ReactNode, useState} from 'react';

import {ApiError} from '../api/client';
import {live, useCommand} from '../api/queries';
import type {OperationDetails} from '../api/types';
import {hasEnded, isOperationId, openingTab} from '../model/operation';
import {Anchor} from '../parts/anchor';
import {Eta} from '../parts/eta';
import {Age, Copyable, Facts, Moment, State} from '../parts/small';
import {Loaded, Problem} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {isMissing, MissingOperation} from './missing';
import {OperationActions} from './operation_actions';
import {ArtifactsTab} from './operation_artifacts';
import {CpuTab, useCpuRecord} from './operation_cpu';
import {DetailsTab} from './operation_details';
import {EventsTab, TimelineTab} from './operation_events';
import {FirstFailure} from './operation_failure';
import {JobsTab} from './operation_jobs';
import {MemoryTab} from './operation_memory';
import {SpecificationTab} from './operation_spec';
import {StatisticsTab} from './operation_statistics';
import {WhyTab} from './operation_why';
import {JobsBar, placesOf} from './operations_table';

export function OperationPage({id}: {id: string}) {
  const operation = useCommand<OperationDetails>('get_operation', {operation_id: id}, {every: live, enabled: isOperationId(id)});
  return (
    <div className="page">
      {!isOperationId(id) || (!operation.data && isMissing(operation.error)) ? (
        <MissingOperation id={id} />
      ) : (
        <Loaded of={operation}>{(data) => <Whole key={data.id} operation={data} />}</Loaded>
      )}
    </div>
  );
}

function Whole({operation}: {operation: OperationDetails}) {
  const {t} = useTexts();
  const [chosen, setTab] = useQueryValue('tab');
  // The page does not leave a tab because the operation no longer waits.
  const [opening] = useState(() => openingTab(operation));
  const tab = chosen || opening;
  const waiting = operation.brief_progress?.jobs?.pending ?? 0;
  const id = operation.id;
  const cpu = useCpuRecord(id, hasEnded(operation.state));
  const tabs: [string, string, () => React.ReactNode][] = [
    ['details', t('Details'), () => <DetailsTab operation={operation} />],
    ['spec', t('Specification'), () => <SpecificationTab operation={operation} />],
    ['jobs', t('Jobs'), () => <JobsTab id={id} counts={operation.progress?.jobs} />],
    ['files', t('Files'), () => {
      const ended = hasEnded(operation.state);
      return <ArtifactsTab key={String(ended)} id={id} ended={ended} />; // the last jobs leave files when it ends: read again
    }],
    ['statistics', t('Statistics'), () => <StatisticsTab operation={operation} />],
    ['memory', t('Memory'), () => <MemoryTab operation={operation} />],
    ['cpu', 'CPU', () => <CpuTab id={id} cpu={cpu} />],
    ['why', t('Why'), () => <WhyTab id={id} ended={hasEnded(operation.state)} />],
    ['timeline', t('Timeline'), () => <TimelineTab id={id} />],
    ['events', t('Events'), () => <EventsTab id={id} />],
  ];
  return (
    <>
      <div className="page__head">
        <h1 className="page__title">{operation.brief_spec.title ?? id}</h1>
        <State name={operation.state} />
        {operation.suspended && <State name="suspended" />}
        <OperationActions operation={operation} ended={hasEnded(operation.state)} />
      </div>
      <Facts
        items={[
          [t('Id'), <Copyable key="id" text={id} />],
          [t('User'), operation.authenticated_user],
          [
            t('Pool'),
            placesOf(operation).map(([tree, pool]) => (
              <Anchor key={tree} href={to.pool(tree, pool)}>
                {pool} [{tree}]
              </Anchor>
            )),
          ],
          [t('Started'), <Moment key="start" at={operation.start_time} />],
          [t('Duration'), <Age key="age" since={operation.start_time} until={operation.finish_time} />],
          [t('Jobs'), <JobsBar key="jobs" jobs={operation.brief_progress?.jobs} />],
          ...(operation.forecast && !hasEnded(operation.state) ? [[t('Forecast'), <Eta key="eta" forecast={operation.forecast} whole />] as [string, ReactNode]] : []),
          ...(waiting > 0 && tab !== 'why' && !hasEnded(operation.state)
            ? [[t('Waiting'), <Anchor key="why" href={to.operation(id, 'why')}>{t('{n} {n|job waits|jobs wait}: why', {n: waiting})}</Anchor>] as [string, ReactNode]]
            : []),
        ]}
      />
      {operation.result?.error && operation.result.error.code !== 0 && (
        <Problem title={t('Why it ended')} error={new ApiError(operation.result.error)} />
      )}
      {operation.state === 'failed' && <FirstFailure id={id} />}
      <TabProvider value={tab} onUpdate={setTab}>
        <TabList>
          {tabs.map(([value, title]) => (
            <Tab key={value} value={value}>
              {title}
            </Tab>
          ))}
        </TabList>
        <div className="tabbody">
          {tabs.map(([value, , body]) => (
            <TabPanel key={value} value={value}>
              {value === tab && body()}
            </TabPanel>
          ))}
        </div>
      </TabProvider>
    </>
  );
}
