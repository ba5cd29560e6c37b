import {TextInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {call, escapeKey} from '../api/client';
import type {MaintenanceRequest, Node} from '../api/types';
import {shellQuote} from '../model/format';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Confirm, Moment, Section} from '../parts/small';
import {useTexts} from '../text/i18n';

/** nodePath returns the path of a node, on which its permissions are. */
const nodePath = (address: string) => `//sys/cluster_nodes/${escapeKey(address)}`;

type Kind = 'ban' | 'disable_scheduler_jobs';

/** NodeActions keep jobs from a node, with a reason that others see. */
export function NodeActions({node}: {node: Node}) {
  const {t} = useTexts();
  const [asking, setAsking] = useState<Kind | ''>('');
  const refusal = useRefusal([[['write', nodePath(node.address)]]]);
  const kept = new Set(Object.values(node.maintenance_requests).map((request) => request.type));
  return (
    <div className="page__actions">
      {!kept.has('disable_scheduler_jobs') && !kept.has('ban') && (
        <GuardedButton refusal={refusal} onClick={() => setAsking('disable_scheduler_jobs')}>
          {t('Disable')}
        </GuardedButton>
      )}
      {!kept.has('ban') && (
        <GuardedButton refusal={refusal} view="outlined-danger" onClick={() => setAsking('ban')}>
          {t('Ban')}
        </GuardedButton>
      )}
      {asking && <Ask node={node.address} kind={asking} onClose={() => setAsking('')} />}
    </div>
  );
}

function Ask({node, kind, onClose}: {node: string; kind: Kind; onClose: () => void}) {
  const {t} = useTexts();
  const [comment, setComment] = useState('');
  const ban = kind === 'ban';
  const reason = comment ? ` --comment ${shellQuote(comment)}` : '';
  return (
    <Confirm
      title={ban ? t('Ban node {name}', {name: node}) : t('Disable node {name}', {name: node})}
      action={ban ? t('Ban') : t('Disable')}
      danger={ban}
      command={`weir nodes ${ban ? 'ban' : 'disable'} ${node}${reason}`}
      run={() => call('add_maintenance', {component: 'cluster_node', address: node, type: kind, comment})}
      done={ban ? t('The node was banned') : t('The node was disabled')}
      onClose={onClose}
    >
      <p>{ban ? t('Its jobs are aborted, and it gets no new ones.') : t('Its jobs continue, and it gets no new ones.')}</p>
      <TextInput label={t('Reason')} value={comment} onUpdate={setComment} controlProps={{'aria-label': t('Reason')}} />
    </Confirm>
  );
}

/** Maintenance lists the maintenance requests of a node. */
export function Maintenance({node}: {node: Node}) {
  const {t, word} = useTexts();
  const refusal = useRefusal([[['write', nodePath(node.address)]]]);
  const [back, setBack] = useState<(MaintenanceRequest & {id: string}) | null>(null);
  const requests = Object.entries(node.maintenance_requests).map(([id, request]) => ({...request, id}));
  if (requests.length === 0 && !back) return null;
  return (
    <Section title={t('Maintenance')}>
      <table className="plain">
        <thead>
          <tr>
            <th>{t('What')}</th>
            <th>{t('Reason')}</th>
            <th>{t('User')}</th>
            <th>{t('Since')}</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {requests.map((request) => (
            <tr key={request.id}>
              <th scope="row">{word(request.type)}</th>
              <td>{request.comment || '–'}</td>
              <td>{request.user}</td>
              <td><Moment at={request.timestamp} /></td>
              <td className="numeric">
                <GuardedButton refusal={refusal} onClick={() => setBack(request)}>
                  {t('Remove')}
                </GuardedButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {back && (
        <Confirm
          title={t('Remove: {what}', {what: word(back.type)})}
          action={t('Remove')}
          command={`weir nodes release ${node.address} --id ${back.id}`}
          run={() => call('remove_maintenance', {component: 'cluster_node', address: node.address, id: back.id})}
          done={t('The request was removed')}
          onClose={() => setBack(null)}
        >
          <p>{t('The node gets jobs again when no other maintenance request blocks it.')}</p>
        </Confirm>
      )}
    </Section>
  );
}
