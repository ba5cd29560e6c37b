import {Alert} from '@gravity-ui/uikit';

import {live, useCommand} from '../api/queries';
import type {Pod, PodList} from '../api/types';
import {Anchor} from '../parts/anchor';
import {Age, Command, Facts, Section, State} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {useCluster} from '../shell/cluster';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {WhyTab} from './operation_why';

/** PodPage says where a pod of Kubernetes is, or why it waits: with the same reason as its condition. */
export function PodPage({namespace, name}: {namespace: string; name: string}) {
  const {t} = useTexts();
  const list = useCommand<PodList>('list_pods', {namespace, name}, {every: live});
  return (
    <div className="page">
      <Loaded of={list}>{({pods}) => (pods[0] ? <Whole pod={pods[0]} /> : <Empty>{t('Weir does not schedule a pod of this name, or it is gone.')}</Empty>)}</Loaded>
    </div>
  );
}

function Whole({pod}: {pod: Pod}) {
  const {t} = useTexts();
  const cluster = useCluster();
  const tree = pod.pool_tree || cluster.data?.default_pool_tree || '';
  const waits = pod.state === 'waiting' || pod.state === 'starting';
  return (
    <>
      <div className="page__head">
        <h1 className="page__title">
          {pod.namespace}/{pod.name}
        </h1>
        <State name={pod.state} />
      </div>
      {pod.reason && <Alert theme="warning" title={pod.reason} message={pod.message.replace(/; kubectl weir explain .*$/, '')} />}
      <Facts
        items={[
          [t('Namespace'), <Anchor key="namespace" href={to.pods(pod.namespace)}>{pod.namespace}</Anchor>],
          [t('Operation'), pod.operation_id ? <Anchor key="operation" href={to.operation(pod.operation_id)}>{pod.alias}</Anchor> : pod.alias || '–'],
          [t('Pool'), pod.pool ? <Anchor key="pool" href={to.pool(tree, pod.pool)}>{pod.pool}</Anchor> : '–'],
          [t('Node'), pod.node ? <Anchor key="node" href={to.node(pod.node)}>{pod.node}</Anchor> : '–'],
          [t('Age'), <Age key="age" since={pod.creation_time} />],
        ]}
      />
      <Command text={`kubectl weir explain pod:${pod.namespace}/${pod.name}`} />
      {waits && pod.operation_id && (
        <Section title={t('What its operation waits for')}>
          <WhyTab id={pod.operation_id} ended={false} />
        </Section>
      )}
    </>
  );
}
