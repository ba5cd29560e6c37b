// The files that the jobs of an operation left behind.
import {Button} from '@gravity-ui/uikit';
import {useState} from 'react';

import {read} from '../api/client';
import {live, useCommand} from '../api/queries';
import type {JobArtifacts} from '../api/types';
import {bytes} from '../model/format';
import {saveBlob} from '../parts/export';
import {Command, Section} from '../parts/small';
import {Empty, Loaded, Problem} from '../parts/states';
import {useTexts} from '../text/i18n';

/** mostSaved is the largest archive that the page offers: a browser holds it in memory. */
const mostSaved = 512 * 2 ** 20;
const firstShown = 50;

export function ArtifactsTab({id, ended}: {id: string; ended: boolean}) {
  const {t} = useTexts();
  const list = useCommand<{artifacts: JobArtifacts[]}>('list_artifacts', {operation_id: id}, {every: ended ? 0 : live});
  return (
    <Loaded of={list}>
      {({artifacts: jobs}) =>
        jobs.length === 0 ? (
          <Empty>{ended ? t('No files are kept of this operation') : t('No files are kept yet; artifact_paths of a task names those that are')}</Empty>
        ) : (
          <>
            {jobs.map((job) => (
              <Files key={job.job_id} operation={id} job={job} />
            ))}
            <div className="muted">{t('Equivalent command')}</div>
            <Command text={`weir op artifacts ${id} -d files`} />
          </>
        )
      }
    </Loaded>
  );
}

function Files({operation, job}: {operation: string; job: JobArtifacts}) {
  const {t, locale} = useTexts();
  const [all, setAll] = useState(false);
  const shown = all ? job.files : job.files.slice(0, firstShown);
  return (
    <Section title={t('Job {id}', {id: job.job_id})} actions={<Download operation={operation} job={job} />}>
      {job.truncated && <p className="warning">{t('Some files are missing: {reason}', {reason: job.message})}</p>}
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Files of job {id}', {id: job.job_id})}>
        <table className="plain plain_narrow">
          <thead>
            <tr>
              <th>{t('File')}</th>
              <th className="numeric">{t('Size')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((file) => (
              <tr key={file.path}>
                <th scope="row">
                  <code>{file.path}</code>
                </th>
                <td className="numeric">{bytes(file.size, locale)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < job.files.length && (
        <Button view="outlined" onClick={() => setAll(true)}>
          {t('Show all {n}', {n: job.files.length})}
        </Button>
      )}
    </Section>
  );
}

/** Download saves the archive of a job's files. */
function Download({operation, job}: {operation: string; job: JobArtifacts}) {
  const {t, locale} = useTexts();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  if (job.archive_size > mostSaved) return <span className="muted">{t('{size}: too large for a browser', {size: bytes(job.archive_size, locale)})}</span>;
  const save = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const response = await read('get_artifacts', {operation_id: operation, job_id: job.job_id});
      saveBlob(`${job.job_id}.tar.zst`, await response.blob());
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button view="outlined" loading={busy} onClick={() => void save()} aria-label={t('Download the files of job {id}', {id: job.job_id})}>
        {t('Download (tar.zst, {size})', {size: bytes(job.archive_size, locale)})}
      </Button>
      {error !== undefined && <Problem error={error} />}
    </>
  );
}
