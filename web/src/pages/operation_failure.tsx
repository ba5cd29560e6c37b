import {ApiError} from '../api/client';
import {useCommand} from '../api/queries';
import type {JobList} from '../api/types';
import {lastLines} from '../model/operation';
import {Anchor} from '../parts/anchor';
import {messageOf, Moment, Section} from '../parts/small';
import {Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {useStderr} from './operation_jobs';

const shown = 15;

/** FirstFailure shows the first job of an operation that failed, with the end of its error output. */
export function FirstFailure({id}: {id: string}) {
  const {t} = useTexts();
  const list = useCommand<JobList>('list_jobs', {operation_id: id, job_state: 'failed', sort_field: 'finish_time', sort_order: 'ascending', limit: 1});
  const job = list.data?.jobs[0];
  if (!job) return null;
  const href = `${to.operation(id, 'jobs')}&shown=${job.id}`;
  return (
    <Section title={t('The first job that failed')} actions={<Anchor href={href}>{job.id}</Anchor>}>
      <p>
        {job.error && <>{messageOf(new ApiError(job.error))}, </>}
        {t('task {task} on {node}', {task: job.task_name, node: job.address ?? '–'})}, <Moment at={job.finish_time} />
      </p>
      <Ending operation={id} job={job.id} href={href} />
    </Section>
  );
}

function Ending({operation, job, href}: {operation: string; job: string; href: string}) {
  const {t} = useTexts();
  const stderr = useStderr(operation, job);
  return (
    <Loaded of={stderr} lines={2}>
      {(whole) => {
        const {text, cut} = lastLines(whole, shown);
        if (text === '') return <p className="muted">{t('The job wrote nothing')}</p>;
        return (
          <>
            <pre className="code" tabIndex={0} aria-label={t('Error output')}>
              {text}
            </pre>
            {cut && <Anchor href={href}>{t('The whole error output')}</Anchor>}
          </>
        );
      }}
    </Loaded>
  );
}
