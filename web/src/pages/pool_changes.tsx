import {Button} from '@gravity-ui/uikit';
import {useMemo, useState} from 'react';

import {ApiError, escapeKey} from '../api/client';
import {useCommand} from '../api/queries';
import type {AuditRecord} from '../api/types';
import {changesOfPool, type PoolChange} from '../model/changes';
import {Diff} from '../parts/diff';
import {Moment} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {useTexts} from '../text/i18n';

const codeAuthorization = 901;

interface Audit {
  records: AuditRecord[];
  incomplete: boolean;
}

/** useAudit reads who changed the trees, or one of them. Only administrators may. */
export function useAudit(limit: number, tree?: string) {
  const below = `//sys/pool_trees${tree === undefined ? '' : `/${escapeKey(tree)}`}`;
  const audit = useCommand<Audit>('list_audit', {below, limit}, {every: 5000});
  return {audit, refused: audit.error instanceof ApiError && audit.error.document.code === codeAuthorization};
}

/** PoolChanges shows who changed a pool, by itself or together with others, and what was before. */
export function PoolChanges({tree, name, path}: {tree: string; name: string; path: string}) {
  const {t} = useTexts();
  const [limit, setLimit] = useState(300);
  const {audit, refused} = useAudit(limit, tree);
  const changes = useMemo(() => changesOfPool(audit.data?.records ?? [], path, name), [audit.data, path, name]);
  if (refused) return <Empty>{t('Only administrators see who changed what')}</Empty>;
  return (
    <Loaded of={audit}>
      {({incomplete}) => (
        <>
          {changes.length === 0 ? (
            <Empty>{incomplete ? t('This pool has not been changed recently') : t('This pool has not been changed yet')}</Empty>
          ) : (
            <div className="scroll" tabIndex={0} role="region" aria-label={t('Changes')}>
              <table className="plain plain_top plain_cards">
                <thead>
                  <tr>
                    <th>{t('Time')}</th>
                    <th>{t('User')}</th>
                    <th>{t('Command')}</th>
                    <th>{t('Change')}</th>
                  </tr>
                </thead>
                <tbody>
                  {changes.map((change) => (
                    <Changed key={change.record.id} change={change} />
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {incomplete && limit < 10_000 && (
            <Button view="outlined" onClick={() => setLimit(Math.min(10_000, limit * 3))}>
              {t('Show more')}
            </Button>
          )}
        </>
      )}
    </Loaded>
  );
}

function Changed({change: {record, own, others}}: {change: PoolChange}) {
  const {t} = useTexts();
  return (
    <tr>
      <td className="nowrap" data-label={t('Time')}>
        <Moment at={record.timestamp} />
      </td>
      <td data-label={t('User')}>{record.user}</td>
      <td data-label={t('Command')}>
        <code>{record.command}</code>
      </td>
      <td className="plain__all">
        <Diff changes={own} />
        {others.length > 0 && (
          <details>
            <summary className="muted">{t('{n} other {n|change|changes} at once', {n: others.length})}</summary>
            <Diff changes={others} />
          </details>
        )}
      </td>
    </tr>
  );
}
